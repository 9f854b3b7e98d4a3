/* Two rows that give each other a unique value, the stream in its one partition and the copy's insert of both rows.
 *
 * Rows 1 and 2; values 1 .. 3; 0: there is no row. The source changes one row a transaction and never has a value
 * twice. The target refuses a value that another row holds. target/place.py: _write, copy/writer.py.
 */
#ifndef CHANGES
#define CHANGES 3
#endif
#ifndef BATCH
#define BATCH 2
#endif
#define OTHER(r) (3 - r)

byte source[3], target[3];
byte log_row[CHANGES + 1], log_value[CHANGES + 1];
byte committed, applied[3];             /* applied: by partition */
bit ledger[3];                          /* deleted while the copy is open (copy.pml) */
byte evicted;                           /* rows whose refresh is asked for, as bits */

proctype Source() {
	byte r, v, last;
	atomic { do :: last < CHANGES -> last++ :: break od };   /* so many changes, this time */
end_idle:
	do
	:: atomic { committed < last ->
		if :: r = 1 :: r = 2 fi;
		if :: v = 0 :: v = 1 :: v = 2 :: v = 3 fi;
		if
		:: source[r] != v && (v == 0 || source[OTHER(r)] != v) ->
			committed++; source[r] = v; log_row[committed] = r; log_value[committed] = v;
			printf("SAY source: change %d gives row %d value %d\n", committed, r, v)
		:: else
		fi;
		r = 0; v = 0 }
	od
}

/* A write that takes the value from the row that holds it; that row is read again at the source. */
inline put(r, v) {
#ifdef WITHOUT_EVICTION
	target[OTHER(r)] != v || v == 0;
#endif
	if
	:: v && target[OTHER(r)] == v ->
		target[OTHER(r)] = 0;
#ifndef WITHOUT_EVICTED_READ_AGAIN
		evicted = evicted | OTHER(r);
#endif
		printf("SAY stream: row %d makes way for the value %d\n", OTHER(r), v)
	:: else
	fi;
	target[r] = v;
	ledger[r] = (v == 0);
	printf("SAY stream: row %d has value %d\n", r, v)
}

proctype Stream(byte p) {
	byte to, r, v, last[3];
	bit has[3];
end_idle:
	do
	:: applied[p] < committed ->
		atomic {   /* a batch: the last change of each row; all rows that it speaks of first go, then come */
			to = applied[p] + 1;
			if :: to < committed && BATCH > 1 -> to++ :: true fi;
			do
			:: applied[p] < to ->
				applied[p]++; r = log_row[applied[p]];
				if
				:: p == 0 || p == r -> last[r] = log_value[applied[p]]; has[r] = 1
				:: else
				fi
			:: else -> break
			od;
			if :: has[1] -> target[1] = 0 :: else fi;
			if :: has[2] -> target[2] = 0 :: else fi;
			r = 0; to = 0
		};
		if
		:: has[1] -> atomic { put(1, last[1]) }
		:: else
		fi;
		if
		:: has[2] -> atomic { put(2, last[2]) }
		:: else
		fi;
		atomic { has[1] = 0; has[2] = 0; last[1] = 0; last[2] = 0 }
	:: (p == 0 && evicted) || (evicted & p) -> atomic {   /* a refresh: behind the changes, as the source has the row now */
		if :: p -> r = p :: p == 0 && (evicted & 1) -> r = 1 :: else -> r = 2 fi;
		evicted = evicted & ~r;
		v = source[r]; target[r] = 0 };
		atomic { put(r, v); r = 0; v = 0 }
	od
}

/* Reads both rows at one moment each, inserts what is absent and holds no value of another row. */
proctype Copy() {
	byte r = 1, v;
	do
	:: r < 3 ->
		v = source[r];
		atomic {
			if
			:: target[r] == 0 && v && !ledger[r] ->
				if
#ifndef WITHOUT_CONFLICT_LEFT
				:: target[OTHER(r)] == v -> printf("SAY copy: leaves row %d, value %d is held\n", r, v)
#else
				:: target[OTHER(r)] == v -> target[OTHER(r)] = 0; target[r] = v; printf("SAY copy: row %d takes value %d\n", r, v)
#endif
				:: else -> target[r] = v; printf("SAY copy: row %d has value %d\n", r, v)
				fi
			:: else
			fi;
			v = 0; r++ }
	:: else -> break
	od
}

init {
	atomic {
		source[1] = 1; source[2] = 2; run Source(); run Copy();
#ifdef WITHOUT_ONE_PARTITION
		run Stream(1); run Stream(2)
#else
		run Stream(0)
#endif
	};
	timeout;
	printf("SAY at rest: target %d %d, source %d %d\n", target[1], target[2], source[1], source[2]);
	assert(target[1] == source[1] && target[2] == source[2])
}
