/*
 * cloister-worker: initializes the image's CPython, then serves as the template. Each session's
 * worker is a fork of it.
 */
#pragma once

/*
 * argv[0]: the interpreter's path inside the image, from which CPython finds its standard library
 * and which becomes sys.executable; argv[1]: the path of libpython there. Returns the exit status;
 * the error was sent to the monitor.
 */
int worker_main(int argc, char **argv);
