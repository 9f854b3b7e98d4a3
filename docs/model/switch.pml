/* A cutover and a rollback with both streams running: roles, late refreshes, a write by hand, runs that are aborted.
 *
 * Side 0 is the source, side 1 the target; stream d writes side d and reads the log of the other one. One row; its value
 * is the number of the application's write that it is of. A log entry has the value, whether a stream wrote it (its
 * fence marks the transaction), and whether its side was standby (the role row's changes are in the same log).
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
#define LOG 10
#define ACTIVE 0
#define STANDBY 1
#define FROZEN 2
#ifdef WITHOUT_ROLE
#define MAY_WRITE(d) (1)
#else
#define MAY_WRITE(d) (role[d] == STANDBY)
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
byte log_value[20], log_marks[20];      /* side * LOG + place; marks: 1 a stream's, 2 while standby */
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
	length[side]++
}

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

/* ---- a stream: publish/own.py, merge/sides.py, target/standing.py, target/roles.py */
inline write(d, value) {
	do
	:: atomic { MAY_WRITE(d) ->
		if   /* no stream writes an active side */
		:: at_side == d -> printf("SAY stream: writes %d at side %d, where applications write\n", value, d); assert(false)
		:: else
		fi;
		append(d, value, MARK);
		printf("SAY stream: writes %d at side %d\n", value, d);
		break }
	:: atomic { !MAY_WRITE(d) && !switching ->   /* set_right: the databases follow the state */
		if
		:: at_side == d -> role[d] = ACTIVE; listed = 1; printf("SAY stream: came too late for side %d, listed\n", d); break
		:: else -> role[d] = STANDBY
		fi }
	od
}

proctype Stream(byte d) {
	byte value, marks;
end_idle:
	do
	:: consumed[d] < length[OTHER(d)] ->
		atomic {
			value = log_value[OTHER(d) * LOG + consumed[d]];
			marks = log_marks[OTHER(d) * LOG + consumed[d]] };
		if
		:: marks == 1
		:: marks == 2 -> atomic { listed = 1; printf("SAY stream: a write of the standby side %d is listed, not carried\n", OTHER(d)) }
		:: marks == 0 -> write(d, value)
		fi;
		atomic { consumed[d]++; value = 0; marks = 0 }
	:: asked[d] ->
		atomic { asked[d] = 0; refreshing[d] = 1; value = row[OTHER(d)]; printf("SAY stream: reads %d at side %d for a refresh\n", value, OTHER(d)) };
		write(d, value);
		atomic { refreshing[d] = 0; value = 0 }
	od
}

/* ---- migrate cutover, migrate rollback: ops/cutover.py */
proctype Switch() {
	byte s, until;
	do
	:: switches < SWITCHES ->
end_waits:	atomic { !listed && OTHER_STREAM_EMPTY -> s = at_side; switching = 1; printf("SAY cutover from side %d begins\n", s) };   /* check */
		closed = 1;                                               /* stop writes, lock */
		until = length[s];
#ifndef WITHOUT_DRAIN
		consumed[OTHER(s)] >= until && !asked[OTHER(s)] && !refreshing[OTHER(s)];
		if
		:: row[s] != row[OTHER(s)] -> goto give_back             /* compare */
		:: else
		fi;
#endif
		if
		:: aborts -> aborts--; goto give_back
		:: skip
		fi;
#ifndef WITHOUT_FROZEN
		atomic { role[s] = FROZEN; role[OTHER(s)] = FROZEN };
#endif
		if
		:: aborts -> aborts--; goto give_back
		:: skip
		fi;
#ifndef WITHOUT_OTHER_SIDE_READ
		if   /* the other stream has read what stands before the roles' change; nobody waits for it for ever */
		:: consumed[s] >= length[OTHER(s)] && !listed
		:: consumed[s] >= length[OTHER(s)] && listed -> goto give_back
		:: timeout -> goto give_back
		fi;
#endif
		if
		:: row[0] != row[1] -> printf("SAY switch: the sides differ, as %d and %d\n", row[0], row[1]); assert(false)
		:: else
		fi;
		atomic { at_side = OTHER(s); closed = 0; switches++; printf("SAY switched to side %d\n", at_side) };
		if
		:: role[s] = STANDBY; role[OTHER(s)] = ACTIVE
		:: role[OTHER(s)] = ACTIVE; role[s] = STANDBY
		fi;
		switching = 0; s = 0; until = 0
	:: switches == SWITCHES -> break
	od;
	goto dead;
give_back:
	atomic { printf("SAY cutover: given back\n"); closed = 0; role[s] = ACTIVE; role[OTHER(s)] = STANDBY; switching = 0; s = 0; until = 0 };
dead:	skip
}

init {
	atomic {
		role[0] = ACTIVE; role[1] = STANDBY;
		run Applications(); run Stream(0); run Stream(1); run Switch()
	};
	timeout;
	printf("SAY at rest: side %d is active and has %d, the other one %d, acknowledged %d\n", at_side, row[at_side], row[OTHER(at_side)], acknowledged);
	assert(listed || (row[0] == acknowledged && row[1] == acknowledged));
	assert(!listed || by_hand < BY_HAND || refreshes < REFRESHES);   /* nothing is listed for nothing */
	assert(listed || by_hand == BY_HAND || row[0] == row[1])
}
