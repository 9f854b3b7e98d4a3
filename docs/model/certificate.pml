/* A verification and a cutover, while a table is added, altered or copied again, and while somebody writes at the standby
 * side by hand: what was compared is what counts.
 *
 * Two rows, compared one after the other. A version stands for definition, rule, copy attempt and incarnation, and for
 * what the stream from the standby side reads. What it reads is listed; what was written there before it began is not.
 * state/verification.py, verify/scope.py, cutover/catch_up.py, publish/publisher.py.
 */
#ifndef CHANGES
#define CHANGES 2
#endif
#ifndef BY_HAND
#define BY_HAND 1
#endif

#ifdef WITHOUT_BINDING
#define BOUND (1)
#else
#define BOUND (version == began)
#endif

bit equal[2];
byte version;
bit certified, switched, reads, listed;

proctype Verification() {
	byte began, rounds;
	bit clean;
	do
	:: rounds < 2 && !switched ->
		began = version; clean = 1;
		if :: !equal[0] -> clean = 0 :: else fi;
		printf("SAY verification: row 1 is compared\n");
		if :: !equal[1] -> clean = 0 :: else fi;
		printf("SAY verification: row 2 is compared\n");
		atomic {
			rounds++;
			if
			:: clean && BOUND -> certified = 1; printf("SAY verification: ends clean, the cutover is armed\n")
			:: else
			fi;
			began = 0; clean = 0 }
	:: else -> break
	od
}

proctype Operator() {
	byte changes;
	do
	:: atomic { changes < CHANGES && !switched -> version++; certified = 0; equal[0] = 0; changes++;
			printf("SAY the table is copied again, row 1 differs meanwhile\n") };
		if
		:: atomic { equal[0] = 1; printf("SAY the copy has brought row 1\n") }
		:: skip
		fi
	:: break
	od
}

/* Before it begins, what is written at the standby side stands in a log that it does not read. */
proctype OtherStream() {
	atomic {
		reads = 1;
#ifndef WITHOUT_BEGINNING
		version++; certified = 0;
#endif
		printf("SAY the stream from the standby side begins to read\n") }
}

proctype Somebody() {
	byte writes;
	do
	:: atomic { writes < BY_HAND && !switched ->
		writes++; equal[1] = 0; listed = listed || reads;
		printf("SAY somebody deletes row 2 at the standby side by hand\n") }
	:: break
	od
}

proctype Cutover() {
end_idle:
	atomic { certified && reads && !listed ->
		switched = 1;
		printf("SAY cutover: switches, rows equal: %d %d\n", equal[0], equal[1]);
		assert(equal[0] && equal[1]) }
}

init {
	atomic {
		equal[0] = 1; equal[1] = 1;
		run Verification(); run Operator(); run OtherStream(); run Somebody(); run Cutover()
	}
}
