/* Names of files by MIME type. */
#pragma once

/* Without a dot; "bin" for an unknown type. */
const char *mime_extension(const char *mime);
