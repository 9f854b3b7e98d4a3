package vectors;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Asks the real INTERVAL and AUTO_INTERVAL where moments go, inside ShardingSphere's own strategy and naming. */
final class Intervals {

    private static final String SECONDS = "yyyy-MM-dd HH:mm:ss";

    private static final String TWO_YEARS = "ds_0.t_${202401..202412},ds_0.t_${202501..202512}";

    private static final String START = "2024-01-01 00:00:00";

    private final List<Map<String, Object>> result = new ArrayList<>();

    /** The answer is one character a moment: an index, '-' no place, '!' an exception. */
    List<Map<String, Object>> all() {
        interval(TWO_YEARS, SECONDS, START, "2025-12-31 23:59:59", "yyyyMM", null, "MONTHS");
        interval(TWO_YEARS, SECONDS, START, "2024-06-15 00:00:00", "yyyyMM", null, "months");
        interval(TWO_YEARS, SECONDS, START, null, "yyyyMM", "1", "MONTHS");
        interval(TWO_YEARS, SECONDS, "2024-01-31 12:00:00", "2025-12-31 23:59:59", "yyyyMM", null, "MONTHS");
        interval(TWO_YEARS, SECONDS, START, "2025-12-31 23:59:59", "uuuuMM", "3", "Months");
        interval("ds_0.t_${202401..202412}", "yyyy-MM-dd", "2024-01-30", "2024-12-30", "yyyyMM", null, "MONTHS");
        interval("ds_0.t_${['01','02','03','04','05','06','07','08','09','10','11','12']}", SECONDS, START,
            "2025-12-31 23:59:59", "MM", null, "MONTHS");
        String days = "ds_0.t_${20240225..20240229},ds_0.t_${20240301..20240305}";
        interval(days, "yyyy-MM-dd", "2024-02-25", "2024-03-05", "yyyyMMdd", null, null);
        interval(days, "yyyyMMdd", "20240225", "20240305", "yyyyMMdd", null, "DAYS");
        interval(days, "yyyyMMddHHmmss", "20240225000000", "20240305000000", "yyyyMMdd", null, "DAYS");
        interval(days, SECONDS, "2024-02-25 00:00:00", "2024-03-05 00:00:00", "yyyyMMdd", "1", "DAYS");
        interval(days, "uuuu/MM/dd HH:mm", "2024/02/25 06:30", "2024/03/05 00:00", "yyyyMMdd", null, "DAYS");
        interval("ds_0.t_${['2024_01_01','2024_01_08','2024_01_15','2024_02_26','2024_03_04']}", SECONDS, START,
            "2024-03-31 00:00:00", "yyyy_MM_dd", "7", "DAYS");
        interval("ds_0.t_${['2024_01_01','2024_01_15','2024_02_26']}", SECONDS, START,
            "2024-03-31 00:00:00", "yyyy_MM_dd", "2", "WEEKS");
        interval("ds_0.t_${2022..2026}", SECONDS, "2022-01-01 00:00:00", "2026-12-31 00:00:00", "yyyy", null, "YEARS");
        interval("ds_0.t_${2020..2026}", SECONDS, "2020-02-29 00:00:00", "2026-12-31 00:00:00", "yyyy", null, "YEARS");
        interval("ds_0.t_${22..26}", SECONDS, "2022-01-01 00:00:00", "2026-12-31 00:00:00", "yy", null, "YEARS");
        interval("ds_${2022..2026}.t", SECONDS, "2022-01-01 00:00:00", "2026-12-31 00:00:00", "yyyy", null, "YEARS");
        interval("ds_0.t_${['2024022818','2024022900','2024022906','2024022912','2024022918','2024030100']}",
            "yyyy-MM-dd HH", "2024-02-28 18", "2024-03-01 00", "yyyyMMddHH", "6", "HOURS");
        interval("ds_0.t_${['202402282359','202402290000','202402290001']}", "yyyy-MM-dd HH:mm:ss.SSS",
            "2024-02-28 23:59:00.000", "2024-02-29 00:01:00.000", "yyyyMMddHHmm", null, "MINUTES");
        interval("ds_0.t_${['59','00']}", "yyyy-MM-dd HH:mm:ss.SSSSSS",
            "2024-02-28 23:59:58.500000", "2024-02-29 00:01:00.000000", "ss", "1", "SECONDS");
        interval("ds_0.t_${['00','12']}", SECONDS, START, "2025-12-31 23:59:59", "HH", "1", "HalfDays");
        interval("ds_0.t_${['00','30']}", "yyyy-MM-dd HH", "2024-02-28 18", "2024-03-01 00", "mm", "30", "MINUTES");
        interval("ds_0.t_${['00','01','58','59']}", "yyyy-MM-dd HH:mm", "2024-02-28 23:00", "2024-02-29 13:00", "ss", "1", "SECONDS");
        auto("ds_0.t_${0..15}", START, "2024-01-10 00:00:00", "86400");
        auto("ds_0.t_${0..9}", START, "2024-01-10 00:00:00", "86400");
        auto("ds_0.t_0${0..9},ds_0.t_${10..20}", START, "2024-01-10 00:00:01", "86400");
        auto("ds_0.t_${0..30}", START, "2026-01-01 00:00:00", "2592000");
        auto("ds_0.t_${0..5}", "2022-01-01 00:00:00", "2026-01-01 00:00:00", "31536000");
        auto("ds_0.t_${0..5}", "2024-01-31 23:59:50", "2024-02-01 00:00:20", "7");
        auto("ds_0.t_${0..40}", "2024-01-31 23:59:50", "2024-02-01 00:00:20", "1");
        auto("ds_${0..9}.t", START, "2025-01-01 00:00:00", "4000000");
        auto("ds_0.t_${0..9}", START, "2025-01-01 00:00:00", "400000000");
        return result;
    }

    private void interval(String nodes, String pattern, String lower, String upper, String suffix, String amount, String unit) {
        Map<String, String> props = new LinkedHashMap<>();
        put(props, "datetime-pattern", pattern);
        put(props, "datetime-lower", lower);
        put(props, "datetime-upper", upper);
        put(props, "sharding-suffix-pattern", suffix);
        put(props, "datetime-interval-amount", amount);
        put(props, "datetime-interval-unit", unit);
        add("INTERVAL", nodes, props);
    }

    private void auto(String nodes, String lower, String upper, String seconds) {
        Map<String, String> props = new LinkedHashMap<>();
        put(props, "datetime-lower", lower);
        put(props, "datetime-upper", upper);
        put(props, "sharding-seconds", seconds);
        add("AUTO_INTERVAL", nodes, props);
    }

    private static void put(Map<String, String> props, String key, String value) {
        if (value != null) {
            props.put(key, value);
        }
    }

    private void add(String algorithm, String nodes, Map<String, String> props) {
        for (Map.Entry<String, List<String>> entry : Moments.all().entrySet()) {
            Map<String, Object> each = new LinkedHashMap<>();
            each.put("algorithm", algorithm);
            each.put("props", props);
            each.put("level", nodes.contains("ds_$") ? "database" : "table");
            each.put("nodes", nodes);
            each.put("table", "t");
            each.put("type", entry.getKey());
            each.put("out", Routes.answers(each, entry.getValue()));
            result.add(each);
        }
    }
}
