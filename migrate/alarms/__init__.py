"""What is told to somebody without being asked: raised once, repeated after a while, resolved once.

Others use `process.watch`, `receivers` and `letter.trial`.

conditions  what holds now, by a look; asks nobody
round       what becomes of the alarms in the state, and what is to be sent
letter      one alarm as its receivers get it
receivers   a command, a webhook, a service of the library apprise
post        a thread for each receiver, so that one that hangs holds nothing up
process     `migrate alarms run`
"""
