/* The commands of `cloister journal`, which `cloister` executes. */
#pragma once

/* argv: the command's name and its options. Prints an error; returns the exit status. */
int journal_command(char *const *argv);
