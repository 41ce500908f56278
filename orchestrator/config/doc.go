// Package config holds brig's settings: one typed value, one table of keys, and
// the places of brig's files.
//
// Load reads the file and the environment and reports every problem at once, each
// with the place it stands at, what is allowed and, where one is near, what was
// probably meant. Nothing is guessed: an unknown key, a misspelt value or a file
// that somebody else could change is an error, never a weaker mode. After Load
// nothing changes a Config any more; it is a comparable value.
//
// The table in table.go is the single source: the file format, the variables,
// `brig config show`, the example file and docs/settings.md are made from it.
//
// # A new key
//
// Add a field to Config and its value to Default, a row to the table, a line to
// cross.go if it depends on another key, and run the tests with -update. Zero must
// be the safe value of the field: what a forgotten line leaves there.
//
// What the package does not do: it does not look whether an engine, an
// interpreter or an image exists, it writes no settings, it watches no file, and on
// Windows it does not judge who may write the file.
package config
