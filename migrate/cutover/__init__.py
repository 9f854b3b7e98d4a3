"""The parts of a cutover and a rollback: write blocks, the freeze and its deadline, catching up, roles, the journal.

Others use `journal.Journal`, `lock.Alone`, `write_block.Blocks`, `freeze_deadline.Watch`, `catch_up.Comparing` and
`reverse_settings.reversed_settings`.
"""
