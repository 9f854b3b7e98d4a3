package vectors;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;

/** The values every algorithm is asked about, as texts, by Java type. Always the same ones. */
final class Values {

    private static final String LETTERS =
        "abcxyzABCXYZ0123456789-_ .:äßéИж中文字𝒳😀\u0001\u007f\u00a0\uffee";

    static Map<String, List<String>> all() {
        Map<String, List<String>> result = new LinkedHashMap<>();
        result.put("Integer", whole(32, 260));
        result.put("Long", whole(64, 420));
        result.put("BigInteger", whole(80, 420));
        result.put("BigDecimal", decimals());
        result.put("String", strings());
        result.put("LocalDate", dates());
        result.put("LocalDateTime", dateTimes());
        return result;
    }

    /** A short list for expressions, most of it edges. */
    static Map<String, List<String>> few() {
        Map<String, List<String>> result = new LinkedHashMap<>();
        result.put("Integer", List.of("0", "1", "-1", "2", "5", "-5", "9", "10", "15", "16", "100", "-100", "4097",
            "1234567", "-7654321", "2147483647", "-2147483648", "-2147483647"));
        result.put("Long", List.of("0", "1", "-1", "5", "-5", "10", "15", "4097", "2147483647", "2147483648",
            "-2147483648", "-2147483649", "4294967295", "4294967296", "4294967301", "-4294967301",
            "1234567890123456789", "-1234567890123456789", "9223372036854775807", "-9223372036854775808"));
        result.put("BigInteger", List.of("0", "1", "-1", "5", "-5", "10", "4294967295", "4294967296", "4294967301",
            "9223372036854775807", "9223372036854775808", "-9223372036854775808", "18446744073709551615",
            "18446744073709551616", "-18446744073709551617", "1208925819614629174706176"));
        result.put("BigDecimal", List.of("0", "0.00", "5", "-5", "12.30", "-12.30", "0.00000001", "100.00", "99.99",
            "12345678901234567890.12", "18446744073709551615", "1000"));
        result.put("String", List.of("", "0", "5", "-5", "+7", " 12 ", "007", "12345", "9223372036854775807",
            "9223372036854775808", "2147483648", "abc", "a-b", "ORD20240115-000042", "2024-01-15 10:20:30", "a😀b",
            "５", "ä", "aaaaaaaaaaaaaaaaaaaaaaaa"));
        return result;
    }

    static Comparable<?> parse(String type, String text) {
        switch (type) {
            case "Integer":
                return Integer.valueOf(text);
            case "Long":
                return Long.valueOf(text);
            case "BigInteger":
                return new BigInteger(text);
            case "BigDecimal":
                return new BigDecimal(text);
            case "LocalDate":
                return LocalDate.parse(text);
            case "LocalDateTime":
                return LocalDateTime.parse(text.replace(' ', 'T'));
            case "Timestamp":
                return Moments.timestamp(text);
            default:
                return text;
        }
    }

    private static List<String> whole(int bits, int count) {
        Set<String> result = new LinkedHashSet<>();
        BigInteger low = BigInteger.ONE.shiftLeft(Math.min(bits, 64) - 1).negate();
        BigInteger high = low.negate().subtract(BigInteger.ONE);
        for (int i = -20; i <= 40; i++) {
            result.add(String.valueOf(i));
        }
        for (int power : new int[] {7, 8, 15, 16, 31, 32, 33, 48, 53, 62, 63, 64, 65, 70}) {
            for (int near = -2; near <= 2; near++) {
                BigInteger value = BigInteger.ONE.shiftLeft(power).add(BigInteger.valueOf(near));
                for (BigInteger each : new BigInteger[] {value, value.negate()}) {
                    if (bits > 64 || each.compareTo(low) >= 0 && each.compareTo(high) <= 0) {
                        result.add(each.toString());
                    }
                }
            }
        }
        Random random = new Random(bits);
        while (result.size() < count) {
            BigInteger value = new BigInteger(1 + random.nextInt(bits - 1), random);
            result.add((random.nextInt(3) == 0 ? value.negate() : value).toString());
        }
        return new ArrayList<>(result);
    }

    private static List<String> decimals() {
        Set<String> result = new LinkedHashSet<>(List.of("0", "0.00", "-0.01", "1.0", "1.00", "10", "-10", "0.00000001",
            "12.30", "-12.30", "99.99", "5", "18446744073709551615", "9223372036854775808", "-9223372036854775809",
            "99999999999999999999999999999999999.999999999999999999999999999999", "2147483648", "4294967296.5"));
        Random random = new Random(10);
        while (result.size() < 120) {
            result.add(new BigDecimal(new BigInteger(1 + random.nextInt(100), random), random.nextInt(12)).toPlainString());
        }
        return new ArrayList<>(result);
    }

    private static List<String> strings() {
        Set<String> result = new LinkedHashSet<>(List.of("", "0", "-0", "+5", "-7", "--1", "+", "-", " 5", "5 ", "1_0",
            "0x10", "1e3", "5.0", "007", "0000000000000000000000042", "５", "１２３", "٣", "9223372036854775807",
            "9223372036854775808", "-9223372036854775808", "-9223372036854775809", "18446744073709551615",
            "2024-01-15", "2024-01-15 10:20:30", "2024-01-15 10:20:30.000", "polygenelubricants",
            "550e8400-e29b-41d4-a716-446655440000", "ORD20240115-000042", "a😀b", "😀😀", "𝒳1", "Straße", "中文",
            "abcdefghijklmnopqrstuvwxyz0123456789abcdefghijklmnopqrstuvwxyz0123456789"));
        int[] letters = LETTERS.codePoints().toArray();
        Random random = new Random(7);
        while (result.size() < 200) {
            result.add(Long.toString(random.nextLong() >> random.nextInt(60)));
        }
        while (result.size() < 330) {
            StringBuilder text = new StringBuilder();
            for (int i = 1 + random.nextInt(20); i > 0; i--) {
                text.appendCodePoint(letters[random.nextInt(letters.length)]);
            }
            result.add(text.toString());
        }
        return new ArrayList<>(result);
    }

    private static List<String> dates() {
        Set<String> result = new LinkedHashSet<>(List.of("0001-01-01", "1000-01-01", "1970-01-01", "2024-02-29",
            "2047-12-31", "2048-01-01", "9999-12-31"));
        Random random = new Random(3);
        while (result.size() < 40) {
            result.add(LocalDate.ofEpochDay(random.nextInt(30000)).toString());
        }
        return new ArrayList<>(result);
    }

    private static List<String> dateTimes() {
        Set<String> result = new LinkedHashSet<>(List.of("1000-01-01 00:00:00", "2024-02-29 23:59:59.999999",
            "9999-12-31 23:59:59", "1970-01-01 00:00:00.000001"));
        Random random = new Random(4);
        while (result.size() < 40) {
            LocalDateTime value = LocalDate.ofEpochDay(random.nextInt(30000)).atStartOfDay()
                .plusSeconds(random.nextInt(86400)).plusNanos(random.nextInt(1000000) * 1000L);
            result.add(value.toString().replace('T', ' '));
        }
        return new ArrayList<>(result);
    }
}
