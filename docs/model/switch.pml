/* A cutover and a rollback with both streams running: roles, late refreshes, a write by hand, runs that are aborted.
 *
 * Side 0 is the source, side 1 the target; stream d writes side d and reads the log of the other one. One row; its value
 * is the number of the application's write that it is of. A log entry has the value, whether a stream wrote it (its
 * fence marks the transaction), and whether its side was standby (the role row's changes are in the same log).
 *
 * LOSSES: so often the side where applications are not comes back without its last commit, with the sessions there ended.
 */
#ifndef WRITES
#define WRITES 2
#endif
#ifndef SWITCHES
#define SWITCHES 2
#endif
#ifndef REFRESHES
#define REFRESHES 1
#endif
#ifndef BY_HAND
#define BY_HAND 0
#endif
#ifndef ABORTS
#define ABORTS 1
#endif
#ifndef LOSSES
#define LOSSES 0
#endif
#if LOSSES
#define LOG 16
#else
#define LOG 10
#endif
#define ACTIVE 0
#define STANDBY 1
#define FROZEN 2
#ifdef WITHOUT_ROLE
#define MAY_WRITE(d) (1)
#else
#if LOSSES && !defined(WITHOUT_STATE_ASKED)
#define MAY_WRITE(d) (role[d] == STANDBY && at_side != d)   /* a session that was opened since asks the state too */
#else
#define MAY_WRITE(d) (role[d] == STANDBY)
#endif
#endif
#ifdef WITHOUT_OTHER_STREAM_CHECKED
#define OTHER_STREAM_EMPTY (1)
#else
#define OTHER_STREAM_EMPTY (!asked[at_side] && !refreshing[at_side])
#endif
#ifdef WITHOUT_OWN_MARK
#define MARK 0
#else
#define MARK 1
#endif
#define OTHER(side) (1 - side)

byte row[2], role[2], length[2], consumed[2];
byte log_value[2 * LOG], log_marks[2 * LOG];   /* side * LOG + place; marks: 1 a stream's, 2 while standby, 3 a role's */
#if LOSSES
byte log_role[2 * LOG], log_reached[2 * LOG];  /* as the side had them behind that entry */
byte reached[2], expected[2];           /* up to where a side has the other one's log; as the state knows it */
byte losses = LOSSES;
bit shortened[2], broken[2];            /* what was read of a side's log is gone; sessions there were ended */
bit unequal;                            /* the state: nothing counts as compared */
#endif
byte acknowledged;                      /* the application's last write */
bit at_side;                             /* the state: where applications write */
bit closed, switching;                  /* the state: writes are stopped; a run is under way */
bit asked[2], refreshing[2];            /* a refresh waits in the topic of a stream; is under way */
bit listed;                             /* a key is listed as foreign or late */
byte by_hand = BY_HAND, refreshes = REFRESHES, switches, aborts = ABORTS;

inline append(side, value, marks) {
	row[side] = value;
	log_value[side * LOG + length[side]] = value;
	log_marks[side * LOG + length[side]] = marks;
#if LOSSES
	log_role[side * LOG + length[side]] = role[side];
	log_reached[side * LOG + length[side]] = reached[side];
#endif
	length[side]++
}

inline set_role(side, to) {
	role[side] = to;
#if LOSSES
	append(side, row[side], 3)
#endif
}

#if LOSSES
inline lose(side) {
	losses--;
	length[side]--;
	log_value[side * LOG + length[side]] = 0; log_marks[side * LOG + length[side]] = 0;
	log_role[side * LOG + length[side]] = 0; log_reached[side * LOG + length[side]] = 0;
	if
	:: length[side] -> row[side] = log_value[side * LOG + length[side] - 1]; role[side] = log_role[side * LOG + length[side] - 1];
		reached[side] = log_reached[side * LOG + length[side] - 1]
	:: else -> row[side] = 0; role[side] = (side -> STANDBY : ACTIVE); reached[side] = 0
	fi;
	broken[side] = 1;
	if
	:: consumed[OTHER(side)] > length[side] -> shortened[side] = 1
	:: else
	fi;
	printf("SAY side %d comes back without its last commit, with row %d\n", side, row[side])
}

proctype Loss() {
end_idle:
	do
	:: atomic { losses && at_side == 0 && length[1] -> lose(1) }
	:: atomic { losses && at_side == 1 && length[0] -> lose(0) }
	od
}
#endif

/* ---- applications, and somebody at the standby side */
proctype Applications() {
end_idle:
	do
	:: atomic { acknowledged < WRITES && !closed ->
		acknowledged++;
		append(at_side, acknowledged, (role[at_side] == STANDBY -> 2 : 0));
		printf("SAY application: writes %d at side %d\n", acknowledged, at_side) }
	:: atomic { by_hand && role[OTHER(at_side)] == STANDBY ->
		by_hand--;
#ifdef WITHOUT_ROLE_IN_LOG
		append(OTHER(at_side), 0, 0);
#else
		append(OTHER(at_side), 0, 2);
#endif
		printf("SAY somebody deletes the row by hand at side %d\n", OTHER(at_side)) }
	:: atomic { refreshes -> refreshes--; asked[OTHER(at_side)] = 1; printf("SAY a refresh of side %d is asked for\n", OTHER(at_side)) }
	od
}

/* ---- a stream: publish/own_writes.py, merge/standby_guard.py, target/write_context.py, target/roles.py */
inline write(d, value) {
	do
#if LOSSES
	:: reached[d] < expected[d] -> again = 1; break          /* the transaction names what it expects */
	:: atomic { reached[d] > consumed[d] && !of_refresh -> break }   /* a repeat */
	:: atomic { MAY_WRITE(d) && (of_refresh || reached[d] <= consumed[d]) && !(reached[d] < expected[d]) ->
		reached[d] = (of_refresh -> reached[d] : consumed[d] + 1); wrote = reached[d];
#else
	:: atomic { MAY_WRITE(d) ->
#endif
		if   /* no stream writes an active side */
		:: at_side == d -> printf("SAY stream: writes %d at side %d, where applications write\n", value, d); assert(false)
		:: else
		fi;
		append(d, value, MARK);
		printf("SAY stream: writes %d at side %d\n", value, d);
		break }
	:: atomic { !MAY_WRITE(d) && !switching ->   /* set_right: the databases follow the state */
		if
		:: at_side == d -> set_role(d, ACTIVE); listed = 1; printf("SAY stream: came too late for side %d, listed\n", d); break
		:: else -> set_role(d, STANDBY)
		fi }
	od
}

proctype Stream(byte d) {
	byte value, marks;
#if LOSSES
	byte wrote;                             /* up to where, by the process's own memory */
	bit again, of_refresh;
#endif
end_idle:
	do
#if LOSSES
	:: atomic { reached[d] < expected[d] ->      /* merge/take_over.py, consume/partition_start.py */
		expected[d] = reached[d]; unequal = 1;
		if
		:: at_side == d -> listed = 1; printf("SAY stream: side %d, where applications are, lost what it had: listed\n", d)
		:: else ->
			if
			:: reached[d] < consumed[d] -> consumed[d] = reached[d]
			:: else
			fi;
			printf("SAY stream: goes on from %d again for side %d\n", consumed[d], d)
		fi }
	:: atomic { shortened[OTHER(d)] && !switching ->   /* publish/replaced_log.py */
		shortened[OTHER(d)] = 0; unequal = 1;
		if
		:: at_side == OTHER(d) -> listed = 1; printf("SAY stream: the log of side %d is another one: stops\n", OTHER(d))
		:: else -> printf("SAY stream: begins at the end of the log of side %d\n", OTHER(d))
		fi;
		consumed[d] = length[OTHER(d)]; expected[d] = (expected[d] > consumed[d] -> consumed[d] : expected[d]);
		reached[d] = (reached[d] > consumed[d] -> consumed[d] : reached[d]) }
	:: !shortened[OTHER(d)] && consumed[d] < length[OTHER(d)] ->
#else
	:: consumed[d] < length[OTHER(d)] ->
#endif
		atomic {
			value = log_value[OTHER(d) * LOG + consumed[d]];
			marks = log_marks[OTHER(d) * LOG + consumed[d]] };
		if
		:: marks == 1 || marks == 3
		:: marks == 2 -> atomic { listed = 1; printf("SAY stream: a write of the standby side %d is listed, not carried\n", OTHER(d)) }
		:: marks == 0 -> write(d, value)
		fi;
#if LOSSES
		atomic {
			if
			:: again || shortened[OTHER(d)]
			:: else -> consumed[d]++; expected[d] = (wrote > expected[d] -> wrote : expected[d])
			fi;
			again = 0; wrote = 0; value = 0; marks = 0 }
#else
		atomic { consumed[d]++; value = 0; marks = 0 }
#endif
	:: asked[d] ->
		atomic { asked[d] = 0; refreshing[d] = 1; value = row[OTHER(d)]; printf("SAY stream: reads %d at side %d for a refresh\n", value, OTHER(d)) };
#if LOSSES
		of_refresh = 1;
		write(d, value);
		atomic { refreshing[d] = 0; value = 0; of_refresh = 0; again = 0; wrote = 0 }
#else
		write(d, value);
		atomic { refreshing[d] = 0; value = 0 }
#endif
	od
}

/* ---- migrate cutover, migrate rollback: commands/cutover_freeze.py */
#if LOSSES
#define GONE(side) broken[side]
#define begun() broken[0] = 0; broken[1] = 0
#define SURE (!unequal)
#ifdef WITHOUT_DATABASES_ASKED
#define LACKS(side) (0)
#else
#define LACKS(side) (reached[side] < expected[side])   /* status/target_losses.py: asked in the check and in the freeze */
#endif
/* Whoever reads its log begins again, and a role that was lost is set right, once nobody switches. */
#define STANDS_STILL(side) (shortened[side] || role[OTHER(side)] != STANDBY)

proctype Verify() {                     /* model certificate.pml has what it may count */
end_idle:
	do
	:: atomic { unequal && !switching && row[0] == row[1] && !shortened[0] && !shortened[1] && !LACKS(0) && !LACKS(1) ->
		unequal = 0; printf("SAY a verification is clean\n") }
	od
}
#else
#define GONE(side) (0)
#define begun() skip
#define SURE (1)
#define LACKS(side) (0)
#define STANDS_STILL(side) (0)
#endif
proctype Switch() {
	byte s, until;
	do
	:: switches < SWITCHES ->
end_waits:	atomic { !listed && OTHER_STREAM_EMPTY && SURE && !LACKS(0) && !LACKS(1) -> s = at_side; switching = 1; begun(); printf("SAY cutover from side %d begins\n", s) };   /* check */
		closed = 1;                                               /* stop writes, lock */
		until = length[s];
#ifndef WITHOUT_DRAIN
		if
		:: consumed[OTHER(s)] >= until && !asked[OTHER(s)] && !refreshing[OTHER(s)]
		:: GONE(s) || GONE(OTHER(s)) || STANDS_STILL(s) -> goto give_back
		fi;
		if
		:: row[s] != row[OTHER(s)] || GONE(s) || GONE(OTHER(s)) || LACKS(OTHER(s)) || !SURE -> goto give_back   /* compare */
		:: else
		fi;
#endif
		if
		:: aborts -> aborts--; goto give_back
		:: skip
		fi;
#ifndef WITHOUT_FROZEN
		if
		:: atomic { !GONE(s) && !GONE(OTHER(s)) -> set_role(s, FROZEN); set_role(OTHER(s), FROZEN) }
		:: GONE(s) || GONE(OTHER(s)) -> goto give_back
		fi;
#endif
		if
		:: aborts -> aborts--; goto give_back
		:: skip
		fi;
#ifndef WITHOUT_OTHER_SIDE_READ
		if   /* the other stream has read what stands before the roles' change; nobody waits for it for ever */
		:: consumed[s] >= length[OTHER(s)] && !listed && !GONE(OTHER(s)) && SURE
		:: GONE(OTHER(s)) || !SURE -> goto give_back
		:: consumed[s] >= length[OTHER(s)] && listed -> goto give_back
		:: timeout -> goto give_back
		fi;
#endif
#if !LOSSES
		if
		:: row[0] != row[1] -> printf("SAY switch: the sides differ, as %d and %d\n", row[0], row[1]); assert(false)
		:: else
		fi;
#endif
		atomic { at_side = OTHER(s); closed = 0; switches++; printf("SAY switched to side %d\n", at_side) };
		if
		:: atomic { set_role(s, STANDBY) }; atomic { set_role(OTHER(s), ACTIVE) }
		:: atomic { set_role(OTHER(s), ACTIVE) }; atomic { set_role(s, STANDBY) }
		fi;
		switching = 0; s = 0; until = 0
	:: switches == SWITCHES -> break
	od;
	goto dead;
give_back:
	atomic { printf("SAY cutover: given back\n"); closed = 0; set_role(s, ACTIVE); set_role(OTHER(s), STANDBY); switching = 0; s = 0; until = 0 };
dead:	skip
}

init {
	atomic {
		role[0] = ACTIVE; role[1] = STANDBY;
		run Applications(); run Stream(0); run Stream(1); run Switch();
#if LOSSES
		run Verify(); run Loss()
#endif
	};
	timeout;
	printf("SAY at rest: side %d is active and has %d, the other one %d, acknowledged %d\n", at_side, row[at_side], row[OTHER(at_side)], acknowledged);
#if LOSSES
	assert(listed || unequal || (row[0] == acknowledged && row[1] == acknowledged));
	assert(listed || row[at_side] == acknowledged);
#else
	assert(listed || (row[0] == acknowledged && row[1] == acknowledged));
	assert(!listed || by_hand < BY_HAND || refreshes < REFRESHES);   /* nothing is listed for nothing */
	assert(listed || by_hand == BY_HAND || row[0] == row[1])
#endif
}
