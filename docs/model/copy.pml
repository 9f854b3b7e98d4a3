/* The full copy beside the stream: one key, one chunk, one target database; a second attempt while the first one
 * hangs, deletes and their deferred return, a refresh; a target or the state database that comes back with less.
 *
 * A row is the change that it is of, INITIAL from before the stream's first position, 0 where there is none. The stream
 * is one owner that applies the changes in order (stream.pml has the rest). Transactions lock rows and ledger rows as
 * READ COMMITTED does: an absent row is not locked.
 */
#ifndef CHANGES
#define CHANGES 2
#endif
#ifndef ATTEMPTS
#define ATTEMPTS 3
#endif
#ifndef REFRESHES
#define REFRESHES 0
#endif
#define INITIAL 9
#define NOBODY 0
#define STREAM 1
#define COPY 2
#ifdef ONE_COPY
#define FIRST_COPY (1)
#else
#define FIRST_COPY (0)
#endif
#ifdef WITHOUT_ATTEMPT_FENCE
#define CHUNK_FENCE (1)
#else
#define CHUNK_FENCE (target.attempt == mine && !target.chunk_closed)
#endif
#ifdef WITHOUT_WAIT_WHERE_CLOSED
#define CLOSED_WAITS (0)
#else
#define CLOSED_WAITS (target.closed)    /* the state may have lost that the table was closed */
#endif
#define SEES(c) (c == 0 -> INITIAL : (gone[c] -> 0 : c))

bit gone[CHANGES + 1];
byte committed, readable;               /* changes in the source's log; those that a SELECT sees by now (capture-before-copy) */
byte applied_to;                        /* the stream: what the state says that the target has */
byte deferred;                          /* the delete whose delayed message waits in Kafka; 0: none */
byte refreshes = REFRESHES;

typedef Kept { byte run_no; byte attempt; byte done; bit reopened; bit copied }
Kept state, state_then;
typedef Database { byte row; byte ledger; byte applied; byte run_no; bit closed; byte attempt; bit chunk_closed }
Database target, target_then;
byte row_by, ledger_by;                 /* who holds the lock of the row, of the ledger row */
byte ledger_put;                        /* the delete that a transaction has noted and not committed */
bit inserted;                           /* the row that the copy has inserted and not committed */
bit boot;                               /* changes where the target comes back: its transactions are gone */

/* ---- the source */
proctype Source() {
	bit is_delete;
	byte last;
	atomic { do :: last < CHANGES -> last++ :: break od };   /* so many changes, this time */
end_idle:
	do
	:: atomic { committed < last ->
		if :: is_delete = 0 :: SEES(committed) -> is_delete = 1 fi;
		committed++; gone[committed] = is_delete;
		if
		:: is_delete -> printf("SAY source: change %d deletes the row\n", committed)
		:: else -> printf("SAY source: change %d writes the row\n", committed)
		fi;
		is_delete = 0 }
	:: readable < committed -> readable++
	od
}

/* ---- the stream: target/part.py, target/place.py, target/decide.py */
proctype Stream() {
	byte c, was;
	bit is_open, here;
end_idle:
	do
	:: applied_to < committed -> atomic {
		c = applied_to + 1; here = boot;
		if
		:: target.applied < applied_to ->
			printf("SAY stream: the target lost writes, read again from change %d\n", target.applied + 1);
			applied_to = target.applied; goto next
		:: else
		fi;
		is_open = !target.closed };
		if
		:: !gone[c] -> atomic { row_by == NOBODY && ledger_by == NOBODY ->
			if :: here != boot -> goto next :: else fi;
			target.row = c; target.ledger = 0; target.applied = c; applied_to = c;
			printf("SAY stream: writes the row of change %d\n", c) }
		:: else ->
#ifdef WITHOUT_LEDGER
			is_open = 0;
#endif
#ifndef WITHOUT_LEDGER_BEFORE_LOOK_UP
			if
			:: is_open -> atomic { ledger_by == NOBODY -> ledger_by = STREAM; ledger_put = c }
			:: else
			fi;
#endif
			/* the look-up: waits for a row that the copy inserted and has not committed */
			if
			:: atomic { row_by == NOBODY -> was = target.row; if :: was -> row_by = STREAM :: else fi }
			:: atomic { row_by == COPY && ledger_by == STREAM -> ledger_by = NOBODY; ledger_put = 0; goto next }   /* deadlock */
			fi;
#ifdef WITHOUT_LEDGER_BEFORE_LOOK_UP
			if
			:: is_open -> atomic { ledger_by == NOBODY -> ledger_by = STREAM }
			:: else
			fi;
#endif
			atomic {   /* commit */
				if
				:: here == boot ->
					if :: was -> target.row = 0 :: else fi;
					if
					:: is_open ->
						target.ledger = c;
						if :: was == 0 -> deferred = c :: else fi;   /* an empty delete comes back later */
						printf("SAY stream: deletes the row by change %d, and leaves a ledger row (there was row %d)\n", c, was)
					:: else -> printf("SAY stream: deletes the row by change %d (there was row %d)\n", c, was)
					fi;
					target.applied = c; applied_to = c
				:: else
				fi;
				if :: row_by == STREAM -> row_by = NOBODY :: else fi;
				if :: ledger_by == STREAM -> ledger_by = NOBODY; ledger_put = 0 :: else fi }
		fi;
next:		atomic { c = 0; was = 0; is_open = 0; here = 0 }
#ifndef WITHOUT_DEFERRED_DELETE
	:: atomic { deferred && target.ledger != deferred && ledger_by == NOBODY -> deferred = 0 }
	:: atomic { deferred && target.ledger == deferred && target.closed && row_by == NOBODY && ledger_by == NOBODY ->
		printf("SAY stream: the deferred delete of change %d comes back (there was row %d)\n", deferred, target.row);
		target.row = 0; target.ledger = 0; deferred = 0 }
#endif
	:: refreshes && applied_to == target.applied ->   /* target/refresh.py: a locking read sees every commit */
		refreshes--;
		was = committed;
		atomic { row_by == NOBODY && ledger_by == NOBODY ->
			if :: SEES(was) -> target.ledger = 0 :: else fi;
			target.row = SEES(was);
			printf("SAY stream: refreshes the row as of change %d\n", was); was = 0 }
	od
}

/* ---- one run of the copy: copy/table_steps.py, copy/writer.py, target/chunk_fence.py */
proctype Copy(byte me) {
	byte run_no, mine, v, until;
	bit here, again;
end_idle:
	atomic {   /* enter */
#ifdef COPIED_FIRST
		me == 2 && state.copied ->
		state.copied = 0; state.done = 0; state.reopened = 1;
#else
		me == 1 || FIRST_COPY || state.run_no > 0;
		if :: state.copied -> goto dead :: else fi;
#endif
		state.run_no++; run_no = state.run_no; again = state.reopened;
		printf("SAY copy %d begins run %d\n", me, run_no)
	};
open:	atomic {   /* open_fence */
		if
		:: target.run_no > run_no ->
			if
			:: state.run_no == run_no -> run_no = target.run_no + 1; state.run_no = run_no
			:: else -> goto dead
			fi
		:: else
		fi;
		again = (again || CLOSED_WAITS);
		target.run_no = run_no; target.closed = 0;
		printf("SAY copy %d opens the table at the target\n", me) };
	if
#ifndef WITHOUT_WAIT_UNTIL_READABLE
	:: again -> until = committed; readable >= until; state.reopened = 0; until = 0; again = 0
#endif
	:: else
	fi;
	if :: state.done -> goto finish :: else fi;
attempt:
	atomic {   /* note, open_chunks */
		if
		:: state.attempt >= ATTEMPTS || state.run_no != run_no -> goto dead
		:: else
		fi;
		state.attempt++;
		if :: target.attempt >= state.attempt && (target.attempt > state.attempt || target.chunk_closed) -> state.attempt = target.attempt + 1 :: else fi;
		mine = state.attempt;
#ifndef WITHOUT_OPEN_AT_ATTEMPT
		if
		:: target.closed || target.run_no < run_no ->
			printf("SAY copy %d: the target lost that the table is open\n", me);
			target.closed = 0; target.run_no = run_no; again = 1
		:: else -> again = 0
		fi;
#endif
		target.attempt = mine; target.chunk_closed = 0;
		printf("SAY copy %d opens attempt %d\n", me, mine) };
	if
	:: again -> until = committed; readable >= until; until = 0; again = 0
	:: else
	fi;
	atomic { v = SEES(readable); printf("SAY copy %d reads row %d\n", me, v) };
	if
	:: atomic { me == 1 -> printf("SAY copy %d is killed\n", me); goto dead }
	:: skip
	fi;
	/* the chunk's transaction */
	atomic { row_by == NOBODY ->
		if
		:: CHUNK_FENCE ->
			here = boot;
			if
			:: target.row == 0 && v -> row_by = COPY; inserted = 1
			:: else
			fi
		:: else ->
			if
			:: target.attempt > mine || target.chunk_closed -> goto dead          /* Superseded */
			:: else -> printf("SAY copy %d: the target lost its attempt\n", me); goto attempt   /* Unopened */
			fi
		fi };
	if
	:: atomic { ledger_by == NOBODY ->   /* take out what the ledger names, close the chunk, commit */
		if
		:: here == boot ->
			if
			:: inserted ->
				target.row = v;
#ifndef WITHOUT_TAKE_OUT
				if :: target.ledger -> target.row = 0 :: else fi;
#endif
				if
				:: target.row -> printf("SAY copy %d inserts row %d\n", me, v)
				:: else -> printf("SAY copy %d inserts row %d and takes it out again\n", me, v)
				fi
			:: else -> printf("SAY copy %d leaves the row as it is\n", me)
			fi;
			target.chunk_closed = 1;
			row_by = (inserted -> NOBODY : row_by); inserted = 0; here = 0; v = 0
		:: else -> row_by = (inserted -> NOBODY : row_by); inserted = 0; here = 0; v = 0; goto attempt
		fi }
	:: atomic { ledger_by == STREAM -> row_by = (inserted -> NOBODY : row_by); inserted = 0; here = 0; v = 0; goto attempt }   /* deadlock */
	fi;
	atomic { if :: state.run_no == run_no -> state.done = mine :: else -> goto dead fi };   /* book */
finish:	atomic {   /* compare_fences */
		if
		:: state.run_no != run_no -> goto dead
#ifndef WITHOUT_CHUNK_COMPARE
		:: state.run_no == run_no && (target.attempt < state.done || !target.chunk_closed || target.run_no < run_no) ->
			if
			:: target.attempt < state.done || !target.chunk_closed -> state.done = 0
			:: else
			fi;
			printf("SAY copy %d: the target lost what was copied\n", me);
			again = 1;
			goto open
#endif
		:: else -> state.reopened = 1
		fi };
	atomic {   /* close_fence */
#ifndef WITHOUT_CHUNK_COMPARE
		if
		:: target.attempt < state.done || !target.chunk_closed || target.run_no < run_no -> goto finish
		:: else
		fi;
#endif
		if
		:: target.run_no != run_no -> goto dead
		:: else
		fi;
		target.closed = 1; printf("SAY copy %d closes the table\n", me) };
	atomic { if :: state.run_no == run_no -> state.copied = 1 :: else fi };
dead:	atomic { run_no = 0; mine = 0; v = 0; until = 0; here = 0; again = 0 }
}

/* ---- faults: back to any earlier commit */
#ifdef TARGET_LOST
proctype Loss_of_target() {
	atomic { target_then.row = target.row; target_then.ledger = target.ledger; target_then.applied = target.applied;
		target_then.run_no = target.run_no; target_then.closed = target.closed; target_then.attempt = target.attempt;
		target_then.chunk_closed = target.chunk_closed };
end_waits:
	atomic { target.run_no != target_then.run_no || target.attempt != target_then.attempt || target.applied != target_then.applied || target.chunk_closed != target_then.chunk_closed ->
		target.row = target_then.row; target.ledger = target_then.ledger; target.applied = target_then.applied;
		target.run_no = target_then.run_no; target.closed = target_then.closed; target.attempt = target_then.attempt;
		target.chunk_closed = target_then.chunk_closed; boot = 1;
		row_by = NOBODY; ledger_by = NOBODY; ledger_put = 0; inserted = 0;
		printf("SAY the target comes back as it was: row %d, applied to %d, attempt %d, table closed %d\n",
			target.row, target.applied, target.attempt, target.closed) }
}
#endif
#ifdef STATE_LOST
inline copy_state(a, b) { a.run_no = b.run_no; a.attempt = b.attempt; a.done = b.done; a.reopened = b.reopened; a.copied = b.copied }
proctype Loss_of_state() {
	atomic { copy_state(state_then, state) };
end_waits:
	atomic { state.run_no != state_then.run_no || state.attempt != state_then.attempt || state.copied != state_then.copied ->
		copy_state(state, state_then);
		printf("SAY the state comes back as it was: run %d, attempt %d, copied %d\n", state.run_no, state.attempt, state.copied) }
}
#endif

init {
	atomic {
		run Source(); run Stream();
#ifdef TARGET_LOST
		run Loss_of_target();
#endif
#ifdef STATE_LOST
		run Loss_of_state();
#endif
#ifdef COPIED_FIRST
		state.run_no = 1; state.attempt = 1; state.done = 1; state.copied = 1;
		target.run_no = 1; target.attempt = 1; target.chunk_closed = 1; target.closed = 1; target.row = INITIAL;
		run Copy(2)
#else
#ifndef ONE_COPY
		run Copy(1);
#endif
		run Copy(2)
#endif
	};
	/* Nothing moves any more. Named by status: a table that is not copied, a target that has less than the state says. */
	timeout;
	if
	:: !state.copied || !target.closed || target.run_no < state.run_no || target.applied < applied_to
	:: else ->
		printf("SAY at rest: the target has row %d, the source row %d\n", target.row, SEES(committed));
		assert(target.row == SEES(committed));
#ifndef WITHOUT_LEDGER_BEFORE_LOOK_UP
		if
		:: target.ledger && deferred -> printf("SAY at rest: a ledger row stays, and no cutover passes it\n"); assert(false)
		:: else
		fi
#endif
	fi
}
