package vectors;

import java.sql.Timestamp;
import java.time.LocalDateTime;
import java.time.format.DateTimeFormatter;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;

/** The moments that INTERVAL and AUTO_INTERVAL are asked about, as texts, by Java type. Always the same ones. */
final class Moments {

    private static final DateTimeFormatter SECONDS = DateTimeFormatter.ofPattern("yyyy-MM-dd HH:mm:ss");

    static Map<String, List<String>> all() {
        List<String> moments = moments();
        Map<String, List<String>> result = new LinkedHashMap<>();
        result.put("LocalDateTime", moments);
        result.put("Timestamp", moments);
        Set<String> dates = new LinkedHashSet<>();
        moments.forEach(each -> dates.add(each.substring(0, 10)));
        result.put("LocalDate", new ArrayList<>(dates));
        Set<String> texts = new LinkedHashSet<>(moments.subList(0, 60));
        texts.addAll(dates);
        texts.addAll(List.of("", "abc", "2024", "2024-02", "202402", "20240226", "2024022", "2024-02-2", "2024-02-26 1",
            "2024-02-26 10", "2024-02-26 10:", "2024-02-26 10:2", "2024-02-26 10:20", "2024-02-26 10:20:", "2024-02-26 10:20:3",
            "2024-02-26T10:20:30", "2024-02-26 10:20:30.123", "2024-02-26 10:20:30.", "2024-02-26 10:20:30 and more",
            "2024-02-30 00:00:00", "2024-02-31", "2023-02-29 00:00:00", "2024-04-31 10:00:00", "2024-02-32", "2024-13-01",
            "2024-00-10 00:00:00", "2024-01-00 00:00:00", "0000-00-00 00:00:00", "0000-01-01 00:00:00", "2024-02-29 24:00:00",
            "2024-02-29 24:00:01", "2024-12-31 24:00:00", "2024-02-29 23:60:00", "2024-02-29 23:59:60", "2024-2-5 1:02:03",
            "+2024-02-26 10:20:30", "-2024-02-26 10:20:30", " 2024-02-26 10:20:30", "12024-02-26 10:20:30",
            "２０２４-02-26 10:20:30", "2024/02/26 10:20", "2024/02/26 10:20:30", "20240226102030", "20240230102030",
            "2024-02-29 24", "2024-02-28 23:59:59.9999999", "a😀b-02-26 10:20:30"));
        result.put("String", new ArrayList<>(texts));
        return result;
    }

    private static List<String> moments() {
        Set<String> result = new LinkedHashSet<>();
        for (String edge : List.of("2024-01-01 00:00:00", "2024-01-31 00:00:00", "2024-01-31 12:00:00", "2024-02-01 00:00:00",
            "2024-02-25 00:00:00", "2024-02-25 06:30:00", "2024-02-26 06:30:00", "2024-02-29 00:00:00", "2024-02-29 12:00:00",
            "2024-03-01 00:00:00", "2024-03-05 00:00:00", "2024-03-29 12:00:00", "2024-06-15 00:00:00", "2024-12-31 23:59:59",
            "2025-01-01 00:00:00", "2026-01-01 00:00:00", "2022-01-01 00:00:00", "2024-02-28 23:59:00", "2024-01-10 00:00:00",
            "2024-02-01 00:00:20", "2027-01-01 00:00:00", "2021-02-28 00:00:00", "2024-02-28 00:00:00")) {
            LocalDateTime moment = LocalDateTime.parse(edge, SECONDS);
            for (int near : new int[] {-1, 0, 1}) {
                result.add(moment.plusSeconds(near).format(SECONDS));
            }
        }
        for (int second = 0; second < 60; second += 3) {
            result.add(LocalDateTime.of(2024, 1, 31, 23, 59, 20).plusSeconds(second).format(SECONDS));
        }
        for (int hundredth = -12; hundredth <= 12; hundredth++) {  // of 86400 seconds, around the second day
            result.add(LocalDateTime.of(2024, 1, 3, 0, 0, 0).plusSeconds(hundredth * 72L).format(SECONDS));
        }
        result.addAll(List.of("0001-01-01 00:00:00", "1970-01-01 00:00:00", "9999-12-31 23:59:59", "2024-02-28 23:59:59.500000",
            "2024-02-28 23:59:59.499999", "2024-02-29 00:00:00.000001", "2024-02-29 00:00:59.999999"));
        Random random = new Random(3);
        while (result.size() < 220) {
            result.add(LocalDateTime.of(2021, 1, 1, 0, 0, 0).plusSeconds(random.nextInt(200_000_000)).format(SECONDS));
        }
        return new ArrayList<>(result);
    }

    static Comparable<?> timestamp(String text) {
        return Timestamp.valueOf(text);
    }
}
