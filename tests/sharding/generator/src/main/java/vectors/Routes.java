package vectors;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.stream.Collectors;
import org.apache.shardingsphere.infra.config.props.ConfigurationProperties;
import org.apache.shardingsphere.infra.datanode.DataNodeInfo;
import org.apache.shardingsphere.infra.expr.core.InlineExpressionParserFactory;
import org.apache.shardingsphere.infra.spi.type.typed.TypedSPILoader;
import org.apache.shardingsphere.sharding.api.config.rule.ShardingTableRuleConfiguration;
import org.apache.shardingsphere.sharding.api.sharding.standard.StandardShardingAlgorithm;
import org.apache.shardingsphere.sharding.route.engine.condition.value.ListShardingConditionValue;
import org.apache.shardingsphere.sharding.route.engine.condition.value.ShardingConditionValue;
import org.apache.shardingsphere.sharding.route.strategy.type.standard.StandardShardingStrategy;
import org.apache.shardingsphere.sharding.rule.ShardingTable;
import org.apache.shardingsphere.sharding.spi.ShardingAlgorithm;

/** Asks a real algorithm, inside ShardingSphere's own strategy and naming, where each value goes. */
final class Routes {

    private static final String DIGITS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

    private static final ConfigurationProperties NO_PROPS = new ConfigurationProperties(new Properties());

    private final List<Map<String, Object>> result = new ArrayList<>();

    /** Numbered algorithms: the answer is one character a value, an index, '-' no place, '!' an exception. */
    List<Map<String, Object>> numbered() {
        String eight = "ds_0.orders_${0..7}";
        for (String count : new String[] {"1", "2", "3", "7", "8"}) {
            add("MOD", "table", eight, "orders", "sharding-count", count);
            add("HASH_MOD", "table", eight, "orders", "sharding-count", count);
        }
        add("MOD", "table", "ds_0.orders_${0..15}", "orders", "sharding-count", "16");
        add("MOD", "table", "ds_0.orders_0${0..9},ds_0.orders_${10..11}", "orders", "sharding-count", "12");
        add("MOD", "table", "ds_0.orders_0${0..9},ds_0.orders_${10..11}", "orders", "sharding-count", "12",
            "zero-padding", "true");
        add("MOD", "table", "ds_0.orders_${0..11}", "orders", "sharding-count", "12", "zero-padding", "true");
        add("MOD", "table", eight, "orders", "sharding-count", "8", "start-offset", "2");
        add("MOD", "table", eight, "orders", "sharding-count", "8", "stop-offset", "1");
        add("MOD", "table", eight, "orders", "sharding-count", "5", "start-offset", "1", "stop-offset", "2");
        add("MOD", "database", "ds_${0..7}.orders", "orders", "sharding-count", "8");
        add("MOD", "database", "shard${['01','02','00','03']}.orders", "orders", "sharding-count", "4");
        add("HASH_MOD", "database", "ds_${0..2}.orders", "orders", "sharding-count", "3");
        add("HASH_MOD", "table", "ds_0.t_${['00','01','02','03','04','05','06','07','08','09','10']}", "t",
            "sharding-count", "11");
        add("HASH_MOD", "table", "ds_0.y2024${0..3}", "y2024", "sharding-count", "4");
        add("HASH_MOD", "table", "ds_0.y2024${0..3}", "orders", "sharding-count", "4");
        add("HASH_MOD", "table", "ds_0.orders,ds_0.orders_${0..3}", "orders", "sharding-count", "4");
        add("HASH_MOD", "table", eight, "orders", "sharding-count", "2147483647");
        add("VOLUME_RANGE", "table", eight, "orders", "range-lower", "0", "range-upper", "100",
            "sharding-volume", "30");
        add("VOLUME_RANGE", "table", eight, "orders", "range-lower", "-10", "range-upper", "40",
            "sharding-volume", "10");
        add("VOLUME_RANGE", "table", eight, "orders", "range-lower", "-4611686018427387904",
            "range-upper", "4611686018427387000", "sharding-volume", "3000000000000000000");
        add("VOLUME_RANGE", "table", eight, "orders", "range-lower", "2147483647", "range-upper", "4294967299",
            "sharding-volume", "2147483648");
        add("BOUNDARY_RANGE", "table", eight, "orders", "sharding-ranges", "10,20,30");
        add("BOUNDARY_RANGE", "table", eight, "orders", "sharding-ranges", " 30, -5 ,10,10, ");
        add("BOUNDARY_RANGE", "table", eight, "orders", "sharding-ranges", "0");
        add("BOUNDARY_RANGE", "table", eight, "orders", "sharding-ranges",
            "-9223372036854775808,-4294967296,4294967296,9223372036854775807");
        return result;
    }

    private void add(String algorithm, String level, String nodes, String logical, String... keysAndValues) {
        Map<String, String> props = new LinkedHashMap<>();
        for (int i = 0; i < keysAndValues.length; i += 2) {
            props.put(keysAndValues[i], keysAndValues[i + 1]);
        }
        for (Map.Entry<String, List<String>> entry : Values.all().entrySet()) {
            if (entry.getKey().startsWith("Local") && !algorithm.equals("HASH_MOD")) {
                continue;
            }
            Map<String, Object> each = new LinkedHashMap<>();
            each.put("algorithm", algorithm);
            each.put("props", props);
            each.put("level", level);
            each.put("nodes", nodes);
            each.put("table", logical);
            each.put("type", entry.getKey());
            each.put("out", answers(each, entry.getValue()));
            result.add(each);
        }
    }

    @SuppressWarnings("unchecked")
    static String answers(Map<String, Object> given, List<String> values) {
        List<String> nodes = InlineExpressionParserFactory.newInstance((String) given.get("nodes")).splitAndEvaluate();
        Collection<String> databases = nodes.stream().map(node -> node.split("\\.")[0])
            .collect(Collectors.toCollection(LinkedHashSet::new));
        String logical = (String) given.get("table");
        ShardingTable table = new ShardingTable(
            new ShardingTableRuleConfiguration(logical, String.join(",", nodes)), databases, null);
        boolean isTable = given.get("level").equals("table");
        Collection<String> names = isTable ? table.getActualTableNames("ds_0") : table.getActualDataSourceNames();
        DataNodeInfo info = isTable ? table.getTableDataNode() : table.getDataSourceDataNode();
        StandardShardingStrategy strategy = strategy((String) given.get("algorithm"), (Map<String, String>) given.get("props"));
        List<String> order = new ArrayList<>(names);
        StringBuilder result = new StringBuilder();
        for (String value : values) {
            result.append(answer(strategy, names, info, order, Values.parse((String) given.get("type"), value)));
        }
        return result.toString();
    }

    private static char answer(StandardShardingStrategy strategy, Collection<String> names, DataNodeInfo info,
                               List<String> order, Comparable<?> value) {
        ShardingConditionValue condition = new ListShardingConditionValue<>("x", "t", Collections.singletonList(value));
        try {
            Collection<String> found = strategy.doSharding(names, Collections.singletonList(condition), info, NO_PROPS);
            return found.isEmpty() ? '-' : DIGITS.charAt(order.indexOf(found.iterator().next()));
        } catch (final RuntimeException ex) {
            return '!';
        }
    }

    static StandardShardingStrategy strategy(String type, Map<String, String> props) {
        Properties properties = new Properties();
        properties.putAll(props);
        ShardingAlgorithm algorithm = TypedSPILoader.getService(ShardingAlgorithm.class, type, properties);
        return new StandardShardingStrategy("x", (StandardShardingAlgorithm<?>) algorithm);
    }

    /** What lists of nodes stand for. */
    static Map<String, List<String>> nodes() {
        Map<String, List<String>> result = new LinkedHashMap<>();
        for (String each : Arrays.asList("ds_0.orders", "ds_${0..1}.orders_${0..3}", "ds_$->{0..1}.orders_$->{0..3}",
            "ds_$->{['a', 'b']}.t_${[0, 2, 'x']}", "ds_0.t_0$->{8..9},ds_0.t_$->{10..11}", "ds_${1..0}.t",
            "ds_${0..<3}.t", "ds_${3..<0}.t", "ds_${'a'..'c'}.t", "ds_${\"c\"..'a'}.t", "ds_${['a','a','b']}.t",
            "ds_${5}.t_${'x'}", " ds_0.t_0 , ds_1.t_1 ,", "ds_${0..1}.t_${['p','q']}_${7..8}", "ds_${-1..1}.t",
            "ds_${[\"x,y\"]}.t", "<GROOVY>ds_${0..1}.t", "<LITERAL>ds_0.t_0, ds_1.t_1", "ds_${ 0 .. 1 }.t",
            "ds_${0..0}.t", "ds_${['a']}.t_${3..1}")) {
            result.put(each, InlineExpressionParserFactory.newInstance(each).splitAndEvaluate());
        }
        return result;
    }
}
