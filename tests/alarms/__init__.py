"""What is told without being asked: by looks that are made up, and by a real process to a real HTTP receiver."""
