"""The parts of a cutover and a rollback: write blocks, the freeze and its deadline, catching up, roles, the journal.

Others use `journal.Journal`, `write_block.WriteBlocks`, `freeze_deadline.GuardianLine`,
`catch_up.StreamComparison` and `reverse_settings.reversed_settings`.
"""
