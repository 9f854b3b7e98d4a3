package vectors;

import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.shardingsphere.infra.spi.type.typed.TypedSPILoader;
import org.apache.shardingsphere.sharding.api.sharding.complex.ComplexKeysShardingAlgorithm;
import org.apache.shardingsphere.sharding.api.sharding.complex.ComplexKeysShardingValue;
import org.apache.shardingsphere.sharding.spi.ShardingAlgorithm;

/** Asks the real COMPLEX_INLINE algorithm, with two columns, for every pair of the short lists of values. */
final class Columns {

    private final List<Map<String, Object>> result = new ArrayList<>();

    List<Map<String, Object>> all() {
        add("Long", "Integer", "t_${(a + b) % 4}", "t_${a % 2}_${b % 3}", "t_$->{a % 4 == b % 4 ? 'same' : 'other'}",
            "t_${a.intdiv(b)}", "t_${a & b}");
        add("Integer", "Integer", "t_${a + b}", "t_${a * 31 + b}", "t_${Math.floorMod(a, 4)}${Math.floorMod(b, 4)}");
        add("Long", "String", "t_${a % 4}_${b}", "t_${(a + b.hashCode()) % 8}", "$a-$b", "t_${b.length() > 3 ? b : 'none'}");
        add("String", "BigInteger", "t_${a.padLeft(4, '0')}_${b % 5}", "t_${a + b}", "t_${b}", "t_${a}");
        add("BigDecimal", "Integer", "t_${a + b}", "t_${(a / 1000).longValue() % 4}_${b % 2}", "t_${a % 7}${b}");
        return result;
    }

    private void add(String first, String second, String... expressions) {
        for (String expression : expressions) {
            for (String columns : new String[] {null, "a,b"}) {
                if (columns == null || expression.equals(expressions[0])) {
                    Map<String, Object> each = new LinkedHashMap<>();
                    each.put("expression", expression);
                    each.put("sharding-columns", columns);
                    each.put("types", List.of(first, second));
                    each.put("out", names(expression, columns, first, second));
                    result.add(each);
                }
            }
        }
    }

    @SuppressWarnings("unchecked")
    private static List<String> names(String expression, String columns, String first, String second) {
        Properties props = new Properties();
        props.setProperty("algorithm-expression", expression);
        if (columns != null) {
            props.setProperty("sharding-columns", columns);
        }
        ComplexKeysShardingAlgorithm<Comparable<?>> algorithm = (ComplexKeysShardingAlgorithm<Comparable<?>>)
            TypedSPILoader.getService(ShardingAlgorithm.class, "COMPLEX_INLINE", props);
        List<String> result = new ArrayList<>();
        for (String a : Values.few().get(first)) {
            for (String b : Values.few().get(second)) {
                result.add(name(algorithm, Values.parse(first, a), Values.parse(second, b)));
            }
        }
        return result;
    }

    /** Null stands for an exception. */
    private static String name(ComplexKeysShardingAlgorithm<Comparable<?>> algorithm, Comparable<?> a, Comparable<?> b) {
        Map<String, java.util.Collection<Comparable<?>>> values = new LinkedHashMap<>();
        values.put("a", Collections.singletonList(a));
        values.put("b", Collections.singletonList(b));
        try {
            return algorithm.doSharding(new ArrayList<>(),
                new ComplexKeysShardingValue<>("t", values, Collections.emptyMap())).iterator().next();
        } catch (final RuntimeException ex) {
            return null;
        }
    }
}
