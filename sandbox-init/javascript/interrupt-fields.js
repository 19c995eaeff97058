'use strict';
/* The numbers that the main thread and the interrupt thread share. AGE is one of 64 bits, behind the others. */
module.exports = {
  GUARD: 0, // FREE, OURS or ENDING
  CELL: 1, // not 0 while a cell runs
  SEEN: 2, // the last message that the main thread has handled
  EXIT: 3, // 1: code of the guest has called process.exit()
  NEVER: 4, // always 0
  READY: 5, // 1: the thread handles signals
  ASKED: 6, // the cell that the last signal is for; 0: none ran
  AGE: 4, // among numbers of 64 bits: when the cell began, in nanoseconds since the start of the process
  BYTES: 64,
  INTERRUPT: 1, // set in the number of a message that asks for the end of the cell
  STOP: 'stop', // the message that ends the thread
  FREE: 0,
  OURS: 1,
  ENDING: 2,
};
