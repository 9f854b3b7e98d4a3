package vectors;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.shardingsphere.infra.datanode.DataNodeInfo;
import org.apache.shardingsphere.infra.spi.type.typed.TypedSPILoader;
import org.apache.shardingsphere.sharding.api.sharding.standard.PreciseShardingValue;
import org.apache.shardingsphere.sharding.api.sharding.standard.StandardShardingAlgorithm;
import org.apache.shardingsphere.sharding.spi.ShardingAlgorithm;

/** Asks the real INLINE algorithm for the name of each value, for every expression and type listed here. */
final class Expressions {

    private static final String INTS = "ILG";

    private static final String NUMBERS = "ILGD";

    private final List<Map<String, Object>> result = new ArrayList<>();

    List<Map<String, Object>> all() {
        templates();
        arithmetic();
        numberMethods();
        texts();
        statics();
        logic();
        decimals();
        return result;
    }

    private void templates() {
        add("ILGDS", "t_${x}", "t_$x", "$x-1", "t_$->{x}", "a${x}b$->{x}c", "t_{${x}}", "${ x }'s", "<GROOVY>t_${x}");
        add(INTS, "t_${x}_${x % 4}", "ds_${x % 2}", "t_$->{x % 16}", "t_${(x)}");
    }

    private void arithmetic() {
        add(INTS, "${x + 1}", "${x - 1}", "${x * 31}", "${x * 31 % 7}", "${x % 3}", "${x % 16}", "${-x}", "${-x % 3}", "${+x}",
            "${~x}", "${x + 2147483647}", "${x * 2147483647}", "${x + 4294967296}", "${x - 5L}", "${x * 3G}",
            "${x & 3}", "${x | 8}", "${x ^ 255}", "${x & 0xFF}", "${x << 3}", "${x >> 3}", "${x << 33}", "${x >> 33}",
            "${x << 3L}", "${x + 1 << 2}", "${x & 3 | 8 ^ 2}", "${1 + x * 2 - 3 % 2}", "${x.intdiv(4) % 4}",
            "${(x % 4) + 1}", "${(0 - x) % 3}", "${x % 1_000}", "${10 - x}", "${100 % (x * x + 1)}", "${x % 9223372036854775806}",
            "${(x.hashCode() ^ (x.hashCode() >>> 16)) & 7}", "${9223372036854775807 + x}", "${x * x * x}");
        add("IL", "${x >>> 3}", "${x >>> 28}", "${x >>> 60}", "${x % -3}", "${x.intdiv(-3)}", "${7 % x}", "${7.intdiv(x)}");
        add("I", "${x.intdiv(-1)}", "${x << x}", "${x >> x}", "${x >>> x}");
        add("G", "${x % 3G}", "${x % 4L}", "${x >> 60}");
    }

    private void numberMethods() {
        add(NUMBERS, "${x.toString()}", "${x.hashCode()}", "${x.intValue()}", "${x.longValue()}", "${x.toInteger()}",
            "${x.toLong()}", "${x.toBigInteger()}", "${x.toBigDecimal()}", "${x.abs()}", "${(int) x}", "${(long) x}",
            "${x as int}", "${x as long}", "${x as Integer}", "${x as Long}", "${x as BigInteger}", "${x as String}",
            "${x.plus(1)}", "${x.minus(1)}", "${x.multiply(3)}", "${x.div(4)}", "${x.intValue() % 5}",
            "${x.toString().padLeft(4, '0')}", "${x.toString().length()}", "${x.toString()[-1]}",
            "${x.toString().hashCode() % 8}", "${Math.abs(x.toString().hashCode()) % 8}", "${x + 'a'}", "${'a' + x}",
            "${x + 1 + 'a'}", "${(x + '').padLeft(6, '0')}", "${-x.abs()}", "${(int) -x}", "${(int) x % 3}");
        add(INTS, "${x.mod(4)}", "${x.mod(4L)}", "${x.intdiv(4)}", "${x.intdiv(4L)}", "${x.intdiv(4G)}",
            "${(x.intdiv(2) + '').padLeft(4, '0')}", "${(long) x.intdiv(2)}", "${x.hashCode().abs() % 3}",
            "${(x.hashCode() & Integer.MAX_VALUE) % 3}", "${(x & Long.MAX_VALUE) % 3}", "${x % 2 as String}",
            "${(x as long) % 4}", "${(x as int).intdiv(4)}", "${x.toString().toBigInteger() % 7}");
    }

    private void texts() {
        add("S", "${x.toString()}", "${x.hashCode()}", "${x.length()}", "${x.size()}", "${x.substring(1)}",
            "${x.substring(0, 2)}", "${x.substring(2, 1)}", "${x.substring(x.length() - 2)}", "${x[0]}", "${x[-1]}",
            "${x[1..2]}", "${x[-2..-1]}", "${x[2..0]}", "${x[0..-1]}", "${x.toInteger()}", "${x.toLong()}", "${x.toBigInteger()}",
            "${x.toLong() % 4}", "${x.padLeft(8)}", "${x.padLeft(8, '0')}", "${x.padLeft(9, 'ab')}", "${x.padRight(8)}",
            "${x.padRight(9, 'ab')}", "${x.padLeft(8, '')}", "${x.trim()}", "${x.reverse()}", "${x.concat('z')}",
            "${x.replace('0', 'o')}", "${x.replace('-', '')}", "${x + 1 + 2}", "${1 + 2 + x}", "${x.indexOf('-')}",
            "${x.lastIndexOf('0')}", "${x.hashCode() % 4}", "${Math.abs(x.hashCode() % 4)}", "${Math.abs(x.hashCode()) % 3}",
            "${x.substring(3, 7)}", "${x.substring(3, 7).toInteger() % 4}", "${x[-1].toInteger() % 2}",
            "${x.startsWith('ORD') ? 'o' : 'n'}", "${x.endsWith('5') ? 1 : 0}", "${x.contains('-') ? 1 : 0}",
            "${x.equals('abc') ? 1 : 0}", "${x == 'abc' ? 1 : 0}", "${x != \"abc\" ? 1 : 0}", "${x.isEmpty() ? 1 : 0}",
            "${x < 'b' ? 1 : 0}", "${x >= '5' ? 1 : 0}", "${x.toLong() > 10 ? x : 'none'}",
            "${x.substring(x.indexOf('-') + 1)}", "${x.reverse().hashCode() % 5}", "${x.trim().toUpperCase().length()}");
    }

    private void statics() {
        add("IL", "${Math.abs(x)}", "${Math.abs(x) % 3}", "${Math.floorMod(x, 4)}", "${Math.floorMod(x, 4L)}",
            "${Math.floorMod(x, -4)}", "${Math.floorDiv(x, 4)}", "${Math.max(x, 10)}", "${Math.min(x, 10)}",
            "${Math.floorMod(x, 4) + 2147483647}", "${Math.floorMod(x, 4L) + 2147483647}", "${Long.valueOf(x)}",
            "${Long.valueOf(x) * 2147483647}", "${Long.toString(x)}", "${Long.hashCode(x)}");
        add("I", "${Integer.valueOf(x)}", "${Integer.toString(x)}", "${Integer.hashCode(x)}");
        add("S", "${Long.parseLong(x)}", "${Long.parseLong(x) % 4}", "${Long.valueOf(x) % 4}", "${Integer.parseInt(x)}",
            "${Integer.valueOf(x) % 4}", "${Math.abs(Long.parseLong(x)) % 8}", "${String.format('%4s', x)}");
        add("ILGDS", "${String.valueOf(x)}", "${String.format('%s', x)}");
        add(INTS, "${String.format('%d', x)}", "${String.format('%02d', x)}", "t${String.format('_%05d_', x % 7)}",
            "${String.format(\"%3d\", x)}", "${String.valueOf(x % 4).padLeft(2, '0')}");
    }

    private void logic() {
        add(NUMBERS, "${x > 3 ? 1 : 0}", "${x >= 5 ? 'a' : 'b'}", "${x == 5 ? 1 : 0}", "${x != 5L ? 1 : 0}", "${x == 5.0 ? 1 : 0}",
            "${x > 3 && x < 100 ? 'a' : 'b'}", "${x < 0 || x > 100 ? 'a' : 'b'}", "${!(x > 3) ? 1 : 2}", "${x > 3 ? x < 9 ? 1 : 2 : 3}",
            "${x > 3}", "${x <= 10.5 ? 1 : 2}");
        add(INTS, "${x % 4 == 1 ? 'a' : x % 4 == 2 ? 'b' : 'c'}", "${x < 1000000 ? x % 4 : x % 8}");
    }

    private void decimals() {
        add(NUMBERS, "${x / 2}", "${x / 3}", "${x / 7}", "${x / 4 * 4}", "${x / 0.5}", "${x / 0.123}", "${x / 2 % 2}", "${x / 2 + 1 as int}",
            "${(x / 1000).longValue() % 4}", "${(x / 1000).toBigInteger() % 4}", "${(long)(x / 1000) % 4}", "${(x / 2).intValue()}",
            "${x + 1.5}", "${x - 0.25}", "${x * 1.5}", "${x % 0.7}", "${x % 2.50}", "${x * -1.0}", "${(x / 3).hashCode()}", "${1 / x}",
            "${100.0 % (x * x + 1)}");
        add("D", "${x % 5}", "${x % 7}", "${x % 100}", "${x + 1}", "${x * 2}", "${x * x}", "${-x}", "${x * -1}", "${x / x}");
    }

    private void add(String types, String... expressions) {
        for (String expression : expressions) {
            Map<String, Object> outputs = new LinkedHashMap<>();
            for (Map.Entry<String, List<String>> entry : Values.few().entrySet()) {
                if (types.indexOf(letter(entry.getKey())) >= 0) {
                    outputs.put(entry.getKey(), names(expression, entry.getKey(), entry.getValue()));
                }
            }
            Map<String, Object> each = new LinkedHashMap<>();
            each.put("expression", expression);
            each.put("out", outputs);
            result.add(each);
        }
    }

    private static char letter(String type) {
        switch (type) {
            case "BigInteger":
                return 'G';
            case "BigDecimal":
                return 'D';
            default:
                return type.charAt(0);
        }
    }

    @SuppressWarnings("unchecked")
    private static List<String> names(String expression, String type, List<String> values) {
        Properties props = new Properties();
        props.setProperty("algorithm-expression", expression);
        StandardShardingAlgorithm<Comparable<?>> algorithm = (StandardShardingAlgorithm<Comparable<?>>)
            TypedSPILoader.getService(ShardingAlgorithm.class, "INLINE", props);
        List<String> result = new ArrayList<>();
        for (String value : values) {
            result.add(name(algorithm, Values.parse(type, value)));
        }
        return result;
    }

    /** Null stands for an exception. */
    private static String name(StandardShardingAlgorithm<Comparable<?>> algorithm, Comparable<?> value) {
        try {
            return algorithm.doSharding(new ArrayList<>(),
                new PreciseShardingValue<>("t", "x", new DataNodeInfo("", 1, '0'), value));
        } catch (final RuntimeException ex) {
            return null;
        }
    }
}
