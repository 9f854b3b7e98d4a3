package vectors;

import java.io.File;
import java.math.BigInteger;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import javax.sql.DataSource;
import org.apache.shardingsphere.driver.api.yaml.YamlShardingSphereDataSourceFactory;

/** Inserts through ShardingSphere-JDBC, with the rule files in tests/sharding/rules, and looks where rows went. */
final class EndToEnd {

    private static final List<String> NUMBERS = Arrays.asList("0", "1", "5", "-5", "17", "2147483648", "-2147483649",
        "4294967301", "-4294967301", "9223372036854775807", "-9223372036854775808", "18446744073709551615");

    private static final List<String> TEXTS = Arrays.asList("5", "abc", "ORD20240115-000042", "a😀b", "Straße");

    private static final List<String> MOMENTS = Arrays.asList("2024-01-01 00:00:00", "2023-12-31 23:59:59",
        "2024-02-29 23:59:59.999999", "2024-03-01 00:00:00", "2024-12-31 23:59:59", "2025-01-01 00:00:00",
        "2024-02-27 00:00:00", "2024-02-28 00:07:11", "2024-02-28 00:07:12", "2024-02-28 00:07:13");

    private final List<List<String>> result = new ArrayList<>();

    private int id;

    List<List<String>> all(File folder) throws Exception {
        run(new File(folder, "plain.yaml"), "orders", "DECIMAL(30)", NUMBERS);
        run(new File(folder, "plain.yaml"), "notes", "VARCHAR(50)", TEXTS);
        run(new File(folder, "plain.yaml"), "one", "DECIMAL(30)", NUMBERS);
        run(new File(folder, "auto.yaml"), "by_mod", "DECIMAL(30)", NUMBERS);
        run(new File(folder, "auto.yaml"), "by_hash", "DECIMAL(30)", NUMBERS);
        run(new File(folder, "auto.yaml"), "by_text", "VARCHAR(50)", TEXTS);
        run(new File(folder, "auto.yaml"), "by_volume", "DECIMAL(30)", NUMBERS);
        run(new File(folder, "auto.yaml"), "by_boundary", "DECIMAL(30)", NUMBERS);
        return result;
    }

    /** Rows by more than one column, or by moments: file, table, then type and text of each value, then the place. */
    List<List<String>> wide(File folder) throws Exception {
        result.clear();
        File file = new File(folder, "columns.yaml");
        DataSource dataSource = YamlShardingSphereDataSourceFactory.createDataSource(file);
        try (Connection connection = dataSource.getConnection(); Statement statement = connection.createStatement()) {
            statement.execute("CREATE TABLE pairs (id INT PRIMARY KEY, user_id DECIMAL(30), kind VARCHAR(9))");
            for (String kind : new String[] {"a", "b", "ab", "", "A"}) {
                for (String number : NUMBERS) {
                    if (new BigInteger(number).bitLength() < 64) {
                        wideRow(file, connection, "pairs", "user_id, kind", "Long", number, "String", kind);
                    }
                    wideRow(file, connection, "pairs", "kind, user_id", "String", kind, "BigInteger", number);
                    wideRow(file, connection, "pairs", "user_id, kind", "literal", number, "literal", "'" + kind + "'");
                }
            }
            wideRow(file, connection, "pairs", "user_id, kind", "literal", "1", "literal", "NULL");
            statement.execute("CREATE TABLE monthly (id INT PRIMARY KEY, made TIMESTAMP(6))");
            statement.execute("CREATE TABLE daily (id INT PRIMARY KEY, made TIMESTAMP(6))");
            for (String table : new String[] {"monthly", "daily"}) {
                for (String moment : MOMENTS) {
                    for (String type : new String[] {"String", "Timestamp", "LocalDateTime"}) {
                        wideRow(file, connection, table, "made", type, moment);
                    }
                    wideRow(file, connection, table, "made", "literal", "'" + moment + "'");
                }
            }
        }
        return result;
    }

    private void wideRow(File file, Connection connection, String table, String columns, String... typesAndTexts)
        throws SQLException {
        id++;
        StringBuilder marks = new StringBuilder();
        List<Object> values = new ArrayList<>();
        for (int i = 0; i < typesAndTexts.length; i += 2) {
            boolean literal = typesAndTexts[i].equals("literal");
            marks.append(", ").append(literal ? typesAndTexts[i + 1] : "?");
            if (!literal) {
                values.add(Values.parse(typesAndTexts[i], typesAndTexts[i + 1]));
            }
        }
        String place = null;
        try (PreparedStatement statement = connection.prepareStatement(
            "INSERT INTO " + table + " (id, " + columns + ") VALUES (" + id + marks + ")")) {
            for (int i = 0; i < values.size(); i++) {
                statement.setObject(i + 1, values.get(i));
            }
            statement.execute();
            place = find(table);
        } catch (final SQLException | RuntimeException ex) {
            System.err.println(table + " " + Arrays.asList(typesAndTexts) + ": " + ex.getMessage());
        }
        List<String> row = new ArrayList<>(Arrays.asList(file.getName(), table, columns));
        row.addAll(Arrays.asList(typesAndTexts));
        row.add(place);
        result.add(row);
    }

    private void run(File file, String table, String type, List<String> values) throws Exception {
        DataSource dataSource = YamlShardingSphereDataSourceFactory.createDataSource(file);
        try (Connection connection = dataSource.getConnection(); Statement statement = connection.createStatement()) {
            statement.execute("CREATE TABLE " + table + " (id INT PRIMARY KEY, user_id " + type + ")");
            for (String value : values) {
                boolean isText = type.startsWith("VARCHAR");
                if (!isText) {
                    insert(file, connection, table, "literal", value);
                    insert(file, connection, table, "BigInteger", value);
                    if (new BigInteger(value).bitLength() < 64) {
                        insert(file, connection, table, "Long", value);
                    }
                    if (new BigInteger(value).bitLength() < 32) {
                        insert(file, connection, table, "Integer", value);
                    }
                }
                insert(file, connection, table, "String", value);
            }
        }
    }

    private void insert(File file, Connection connection, String table, String how, String value) throws SQLException {
        id++;
        boolean literal = how.equals("literal");
        String sql = "INSERT INTO " + table + " (id, user_id) VALUES (" + id + ", " + (literal ? value : "?") + ")";
        String place = null;
        try (PreparedStatement statement = connection.prepareStatement(sql)) {
            if (!literal) {
                statement.setObject(1, Values.parse(how, value));
            }
            statement.execute();
            place = find(table);
        } catch (final SQLException | RuntimeException ex) {
            System.err.println(file.getName() + " " + table + " " + how + " " + value + ": " + ex.getMessage());
        }
        result.add(Arrays.asList(file.getName(), table, how, value, place));
    }

    /** Looks into the databases themselves, past ShardingSphere. */
    private String find(String table) throws SQLException {
        for (String database : new String[] {"ds_0", "ds_1", "ds_2"}) {
            String url = "jdbc:h2:mem:" + database + ";MODE=MySQL;DATABASE_TO_UPPER=false";
            try (Connection connection = DriverManager.getConnection(url, "sa", ""); Statement statement = connection.createStatement()) {
                for (String each : tables(statement, table)) {
                    try (ResultSet found = statement.executeQuery("SELECT 1 FROM " + each + " WHERE id = " + id)) {
                        if (found.next()) {
                            return database + "." + each;
                        }
                    }
                }
            }
        }
        throw new IllegalStateException("row " + id + " is nowhere");
    }

    private static List<String> tables(Statement statement, String prefix) throws SQLException {
        List<String> result = new ArrayList<>();
        try (ResultSet rows = statement.executeQuery(
            "SELECT TABLE_NAME FROM INFORMATION_SCHEMA.TABLES WHERE TABLE_NAME LIKE '" + prefix + "%'")) {
            while (rows.next()) {
                result.add(rows.getString(1));
            }
        }
        return result;
    }
}
