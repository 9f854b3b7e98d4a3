/* The stream. One source, one partition, one key and DATABASES target databases; two publishers of which one is a
 * zombie, two consumers with a hand-over, a refresh; a target or the state database that comes back with less.
 *
 * A change is its coordinate, 1 .. CHANGES. Change c leaves the row in database place[c], or nowhere (NOWHERE: a
 * delete). A target's row is the change that it is of; 0: there is none. Docstrings name the module that does it.
 */
#ifndef CHANGES
#define CHANGES 2
#endif
#ifndef DATABASES
#define DATABASES 1
#endif
#ifndef REFRESHES
#define REFRESHES 0
#endif
#ifndef BATCH
#define BATCH 2
#endif
#define TOPIC 6
#define REFRESH 9                       /* a message that asks for the row as it is now */
#define NOWHERE 7
#define NOTHING 8                       /* a batch has no word on the row */
#define NOBODY 0
#define SEES(d, c) (place[c] == d -> c : 0)
#ifdef WITHOUT_FENCE_OFFSET
#define EXPECTED(d) (0)
#else
#define EXPECTED(d) (has[d])
#endif
#ifdef WITHOUT_FENCE_HOLDER
#define OTHER_HOLDER(d) (0)
#else
#define OTHER_HOLDER(d) (target[d].epoch == epoch && target[d].holder != me)
#endif
#ifdef WITHOUT_FOUND_NOTED
#define NOTES_FOUND (0)
#else
#define NOTES_FOUND (is_first)          /* what a database had when the partition was taken */
#endif
#define LARGER(a, b) (a > b -> a : b)

byte place[CHANGES + 1] = NOWHERE;      /* by change; before the first one there is no row */
byte committed;                         /* changes that the source acknowledged */
byte topic[TOPIC];
byte end;                               /* messages in the topic */
byte refreshes = REFRESHES;

typedef Kept { byte epoch; byte holder; byte published; byte consumed; byte watermark; byte reached[DATABASES] }
Kept state, state_then;
typedef Database { byte row; byte epoch; byte holder; byte offset; byte coordinate }
Database target[DATABASES], target_then;

byte believes[3];                       /* the epoch that a consumer believes to hold; 0: none */
bit hung_up = 0;                        /* the one hand-over from a consumer that hangs was made */
bit crashed = 0;                        /* the one consumer that ends for good did */

/* ---- the source: applications commit changes, one of them a delete or a move */
active proctype Source() {
	byte where;
	do
	:: atomic { committed < CHANGES ->
		if :: where = 0 :: place[committed] != NOWHERE -> where = NOWHERE
#if DATABASES > 1
		:: where = 1
#endif
		fi;
		committed++;
		place[committed] = where;
		if
		:: where == NOWHERE -> printf("SAY source: change %d deletes the row\n", committed)
		:: else -> printf("SAY source: change %d writes the row (database %d)\n", committed, where)
		fi;
		where = 0 }
	:: committed == CHANGES -> break
	od
}

/* ---- migrate/publish: at least once, the position behind what Kafka confirmed */
proctype Publisher(byte me) {
	byte at;
	atomic { at = state.published; printf("SAY publisher %d starts behind change %d\n", me, at) };
end_idle:
	do
	:: at < committed ->
#ifdef WITHOUT_POSITION_AFTER_DELIVERY
		atomic { at++; state.published = at; printf("SAY publisher %d saves its position: change %d\n", me, at) };
		if :: skip :: me == 1 -> printf("SAY publisher 1 is killed\n"); goto dead fi;
		atomic { topic[end] = at; end++; printf("SAY publisher %d sends change %d\n", me, at) }
#else
		atomic { at++; topic[end] = at; end++; printf("SAY publisher %d sends change %d\n", me, at) };
		if :: state.published = at :: me == 1 -> goto dead fi
#endif
	:: me == 1 -> break
	od;
dead:	skip
}

/* ---- migrate/consume, migrate/merge, migrate/target: one who owns the partition */
inline forget() {   /* what a consumer no longer knows; keeps the states few */
	at = 0; watermark = 0; to = 0; seen = 0; c = 0; read_at = 0; start = 0; refreshed = 0; is_behind = 0; is_first = 0;
	d = 0;
	do
	:: d < DATABASES -> has[d] = 0; applied[d] = 0; had[d] = 0; intent[d] = 0; intent_of[d] = 0; wrote[d] = 0; d++
	:: else -> break
	od;
	d = 0
}

inline lose() {
	if
	:: state.holder == me && state.epoch == epoch -> state.holder = NOBODY
	:: else
	fi;
	believes[me] = 0; epoch = 0; forget();
	goto idle
}

/* One database's share, one transaction (target/part.py, target/reached.py, target/fence.py). */
inline write(d) {
	if
	:: intent[d] != NOTHING || refreshed ->
		atomic {
			if
			:: target[d].epoch > epoch || OTHER_HOLDER(d) ->
#ifndef WITHOUT_FENCE_EPOCH
				printf("SAY consumer %d: database %d has another owner, nothing is written\n", me, d);
				lose()
#endif
			:: else ->
				if
				:: target[d].epoch < epoch || target[d].offset < EXPECTED(d) ->
					printf("SAY consumer %d: database %d lost writes, the partition is taken again\n", me, d);
					goto begin
				:: else
				fi
			fi;
			if
			:: intent[d] != NOTHING ->
				if   /* each change once, never back */
				:: intent_of[d] <= target[d].coordinate ->
					printf("SAY consumer %d: database %d gets change %d again, behind change %d\n", me, d, intent_of[d], target[d].coordinate);
					assert(false)
				:: else
				fi;
				target[d].row = intent[d];
				printf("SAY consumer %d: database %d row of change %d\n", me, d, intent[d])
			:: else
			fi;
			if
			:: refreshed ->
				target[d].row = SEES(d, read_at);
				printf("SAY consumer %d: database %d refreshed from change %d\n", me, d, read_at)
			:: else
			fi;
			target[d].coordinate = LARGER(target[d].coordinate, seen);
			target[d].offset = LARGER(target[d].offset, to);
			has[d] = to; wrote[d] = 1
		}
	:: else
	fi
}

proctype Consumer(byte me) {
	byte epoch, at, watermark, to, seen, c, d, read_at, start;
	byte has[DATABASES], applied[DATABASES], had[DATABASES], intent[DATABASES], intent_of[DATABASES];
	bit wrote[DATABASES], refreshed, is_behind, is_first;
end_idle:
idle:	/* state/lease.py: free, run out, or the one hand-over from a consumer that hangs */
	atomic {
		if
		:: state.holder == NOBODY || believes[state.holder] != state.epoch
		:: state.holder != NOBODY && state.holder != me && believes[state.holder] == state.epoch && !hung_up -> hung_up = 1
		fi;
		state.epoch++; state.holder = me; epoch = state.epoch; believes[me] = epoch;
		printf("SAY consumer %d takes the partition, epoch %d\n", me, epoch)
	};
begin:	/* consume/partition_start.py: take */
	atomic {
		forget(); is_first = 1;
		at = state.consumed; watermark = state.watermark;
		d = 0;
		do :: d < DATABASES -> had[d] = state.reached[d]; d++ :: else -> break od
	};
take:	d = 0; is_behind = 0; start = at;
	do
	:: d < DATABASES -> atomic {   /* target/reached.py: take */
		if
		:: target[d].epoch > epoch || OTHER_HOLDER(d) ->
			if   /* StateBehind: the lease gets a later epoch, if it is still ours */
			:: state.holder == me && state.epoch == epoch ->
				state.epoch = target[d].epoch + 1; epoch = state.epoch; believes[me] = epoch;
				printf("SAY consumer %d: the state lost an epoch, now %d\n", me, epoch);
				goto take
			:: else -> lose()
			fi
		:: else
		fi;
		target[d].epoch = epoch; target[d].holder = me;
		has[d] = target[d].offset; applied[d] = target[d].coordinate;
#ifndef WITHOUT_FENCE_OFFSET
		if
		:: has[d] < had[d] ->
			is_behind = 1;
			start = (has[d] < start -> has[d] : start);
			watermark = (applied[d] < watermark -> applied[d] : watermark)
		:: else
		fi;
#endif
		d++ }
	:: else -> break
	od;
	d = 0;
	if
	:: is_behind -> atomic {   /* _set_back */
		at = start;
		if
		:: state.holder == me && state.epoch == epoch -> state.consumed = (start < state.consumed -> start : state.consumed)
		:: else -> lose()
		fi }
	:: else
	fi;
end_waits:
	do
	:: at < end ->
		atomic {   /* poll; merge/folder.py and merge/fold.py: repeats dropped, the last word on each place wins */
			to = at + 1;
			if :: to < end && BATCH > 1 -> to++ :: true fi;
			seen = watermark; refreshed = 0; d = 0;
			do :: d < DATABASES -> intent[d] = NOTHING; intent_of[d] = 0; wrote[d] = 0; d++ :: else -> break od;
			start = at;
			do
			:: start < to ->
				c = topic[start]; start++;
				if
				:: c == REFRESH -> refreshed = 1
#ifndef WITHOUT_REPEATS_DROPPED
				:: c != REFRESH && c <= seen -> skip   /* a repeat */
#endif
				:: else ->
					seen = c; d = 0;
					do
					:: d < DATABASES ->
						if
#if !defined(WITHOUT_FENCE_COORDINATE) && !defined(WITHOUT_REPEATS_DROPPED)
						:: c <= applied[d] -> skip
#endif
						:: else ->
							if
							:: place[c] == d -> intent[d] = c; intent_of[d] = c
							:: place[c] != d && (place[c] == NOWHERE || place[c - 1] == d) -> intent[d] = 0; intent_of[d] = c
							:: else
							fi
						fi;
						d++
					:: else -> break
					od
				fi
			:: else -> break
			od;
			c = 0; d = 0; start = 0;
#ifdef WITHOUT_CONSUMED_PREFIX
			if   /* consumed when it is read, not when it is written */
			:: state.holder == me && state.epoch == epoch -> state.consumed = to
			:: else
			fi;
#endif
			printf("SAY consumer %d reads messages %d to %d\n", me, at, to - 1)
		};
		if
		:: refreshed -> atomic { read_at = committed; printf("SAY consumer %d reads the source's row: change %d\n", me, read_at) }
		:: else
		fi;
		if
		:: skip
		:: atomic { !crashed -> crashed = 1; believes[me] = 0; printf("SAY consumer %d is killed\n", me); goto dead }
		fi;
		write(0);
#if DATABASES > 1
		if
		:: skip
		:: atomic { !crashed -> crashed = 1; believes[me] = 0; printf("SAY consumer %d is killed\n", me); goto dead }
		fi;
		write(1);
#endif
		atomic {   /* consume/consumer.py: _mark, state/record.py: mark_consumed */
			if
			:: state.holder == me && state.epoch == epoch
			:: else -> lose()
			fi;
#ifndef WITHOUT_MARK_COMPARED
			if
			:: state.consumed < at -> printf("SAY consumer %d: the state was put back, the partition is taken again\n", me); goto begin
			:: else
			fi;
#endif
			state.consumed = to; state.watermark = seen;
			d = 0;
			do
			:: d < DATABASES ->
				if
				:: wrote[d] -> applied[d] = LARGER(applied[d], seen)
				:: else
				fi;
				if
				:: wrote[d] || NOTES_FOUND -> state.reached[d] = LARGER(state.reached[d], has[d])
				:: else
				fi;
				wrote[d] = 0; intent[d] = 0; intent_of[d] = 0; d++
			:: else -> break
			od;
			is_first = 0; d = 0; at = to; watermark = seen; to = 0; seen = 0; refreshed = 0; read_at = 0
		}
	od;
dead:	skip
}

/* ---- a refresh: asked through the key's partition, read by its owner (target/refresh.py) */
active proctype Repair() {
	byte was;
end_idle:
	do
	:: refreshes > 0 && committed > 0 ->
		refreshes--;
#ifdef WITHOUT_REFRESH_BY_OWNER
		/* the one who asks reads the row, and writes it at the target */
		atomic { was = committed; printf("SAY repair reads the source's row: change %d\n", was) };
		atomic { target[0].row = SEES(0, was); printf("SAY repair writes the row of change %d\n", was) }
#else
		atomic { topic[end] = REFRESH; end++; printf("SAY a refresh is asked for\n") }
#endif
	od
}

/* ---- faults */
#ifdef TARGET_LOST
active proctype Loss_of_target() {
	atomic { target_then.row = target[0].row; target_then.epoch = target[0].epoch; target_then.holder = target[0].holder;
		target_then.offset = target[0].offset; target_then.coordinate = target[0].coordinate };
end_waits:
	atomic { target[0].offset != target_then.offset || target[0].epoch != target_then.epoch ->
		target[0].row = target_then.row; target[0].epoch = target_then.epoch; target[0].holder = target_then.holder;
		target[0].offset = target_then.offset; target[0].coordinate = target_then.coordinate;
		printf("SAY database 0 comes back as it was at offset %d, epoch %d\n", target_then.offset, target_then.epoch) }
}
#endif
#ifdef STATE_LOST
inline copy_state(a, b) {
	a.epoch = b.epoch; a.holder = b.holder; a.published = b.published; a.consumed = b.consumed;
	a.watermark = b.watermark; a.reached[0] = b.reached[0]
#if DATABASES > 1
	; a.reached[1] = b.reached[1]
#endif
}
active proctype Loss_of_state() {
	atomic { copy_state(state_then, state) };
end_waits:
	atomic { state.consumed != state_then.consumed || state.epoch != state_then.epoch ->
		copy_state(state, state_then);
		printf("SAY the state comes back as it was at epoch %d, consumed %d\n", state.epoch, state.consumed) }
}
#endif

init {
	byte d;
	atomic {
		place[0] = NOWHERE;
#ifndef ONE_PUBLISHER
		run Publisher(1);
#endif
		run Publisher(2);
		run Consumer(1); run Consumer(2)
	};
	/* Nothing moves any more. */
	timeout;
	d = 0;
	do
	:: d < DATABASES ->
		/* a database that lost writes and that nobody writes to is named by status, and by the cutover's check */
		if
#if defined(TARGET_LOST) && !defined(WITHOUT_FENCE_OFFSET)
		:: target[d].offset < state.reached[d] || state.consumed < end -> skip
#endif
		:: else ->
			printf("SAY at rest: database %d has the row of change %d, the source the row of change %d\n", d, target[d].row, SEES(d, committed));
			assert(target[d].row == SEES(d, committed))
		fi;
		d++
	:: else -> break
	od
}
