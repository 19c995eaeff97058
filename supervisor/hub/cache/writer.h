/*
 * The process that writes the files of the cache. The broker does not write them, because it parses untrusted
 * bytes and must not be able to fill the disk. It gets the content of a file as a sealed memfd with the file's key.
 * The cache has at most HUB_CACHE_FILES_MAX files of HUB_CACHE_FILE_MAX bytes, and HUB_CACHE_BYTES_MAX
 * in total: what does not fit is not written.
 */
#pragma once

/* The process itself: serves until the socket's other end is closed. dir: the open cache. */
void cache_writer_serve(int socket, int dir);
