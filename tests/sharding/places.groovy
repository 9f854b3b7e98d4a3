// Inserts keys through ShardingSphere-JDBC into H2 in memory, and writes where H2 itself has each of them.
//
// Arguments: a rule file, a file of keys (logical table, Java type, H2's type, value, with tabs between), a file to write:
// the place of each key, in the same order, as data source and table. Columns are `id` and `k`.
import java.sql.DriverManager
import java.sql.Timestamp
import java.time.LocalDate
import java.time.LocalDateTime
import org.apache.shardingsphere.driver.api.yaml.YamlShardingSphereDataSourceFactory

TIMES = 250 // rows of a statement

def parsed(String type, String text) {
    switch (type) {
        case 'Integer': return Integer.valueOf(text)
        case 'Long': return Long.valueOf(text)
        case 'BigInteger': return new BigInteger(text)
        case 'BigDecimal': return new BigDecimal(text)
        case 'LocalDate': return LocalDate.parse(text)
        case 'LocalDateTime': return LocalDateTime.parse(text.replace(' ', 'T'))
        case 'String': return text
        default: throw new IllegalArgumentException(type)
    }
}

def (rules, keys, out) = args.collect { new File(it) }
def rows = keys.readLines('UTF-8').withIndex().collect { line, id -> [id, *line.split('\t', -1)] }
def source = YamlShardingSphereDataSourceFactory.createDataSource(rules)
source.connection.withCloseable { connection ->
    rows.groupBy { it[1] }.each { table, its ->
        connection.createStatement().execute("CREATE TABLE $table (id INT PRIMARY KEY, k ${its[0][3]})".toString())
        its.collate(TIMES).each { some ->
            def marks = (['(?, ?)'] * some.size()).join(', ')
            def statement = connection.prepareStatement("INSERT INTO $table (id, k) VALUES $marks".toString())
            some.eachWithIndex { row, i ->
                statement.setInt(2 * i + 1, row[0])
                statement.setObject(2 * i + 2, parsed(row[2], row[4]))
            }
            assert statement.executeUpdate() == some.size()
            statement.close()
        }
    }
}
def places = new String[rows.size()]
['ds_0', 'ds_1'].each { database ->
    def url = "jdbc:h2:mem:$database;MODE=MySQL;DATABASE_TO_UPPER=false".toString()
    DriverManager.getConnection(url, 'sa', '').withCloseable { connection ->
        def listed = connection.createStatement().executeQuery(
            "SELECT TABLE_NAME FROM INFORMATION_SCHEMA.TABLES WHERE TABLE_SCHEMA = 'PUBLIC' OR TABLE_SCHEMA = 'public'")
        def tables = []
        while (listed.next()) {
            tables << listed.getString(1)
        }
        tables.each { table ->
            def found = connection.createStatement().executeQuery("SELECT id FROM $table".toString())
            while (found.next()) {
                def id = found.getInt(1)
                assert places[id] == null : "row $id is at two places"
                places[id] = "$database.$table"
            }
        }
    }
}
out.setText(places.collect { it ?: 'nowhere' }.join('\n') + '\n', 'UTF-8')
System.exit(0) // its pools have threads of their own
