// Package audit keeps the log of who had what run where, and of everything that
// widened or weakened the boundary.
//
// The log is a directory of files with one JSON object per line, all of it ASCII:
// what is not, and every control character, is escaped, so that no text of an
// agent can end a line or reach a terminal. Each line holds the SHA-256 of itself
// and of the line before, and a number without gaps. A file that has grown full is
// closed with a line that names the next one, and the chain goes on there.
//
// Lines are only ever appended, by any number of processes, one at a time under a
// lock of the kernel. What does not fit the chain is never removed or mended: the
// file is left as it is, another one is begun, and a line says so.
//
// The hashes have no secret: whoever can write the directory can write a whole new
// chain. That shows against the heads that are kept elsewhere: in a file beside
// the log, where its owner anchors it (Options.Keep), and wherever a person has
// noted one.
package audit
