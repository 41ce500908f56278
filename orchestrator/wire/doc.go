// Package wire is the protocol between brig and the runner inside an instance:
// a bounded frame codec, streams with credit, and the Peer that drives a
// runner over one pair of pipes.
//
// The runner is hostile by definition: user code may have taken it over.
// Every length is checked before memory is allocated for it, every identifier
// is checked against what brig itself handed out, and any violation ends the
// connection with a *ProtocolError. Nothing a runner sends is trusted beyond
// "this is what that instance says about itself".
//
// # Frames
//
// A frame is a 12 byte header and a payload of at most 64 KiB:
//
//	0  2  magic 0xB7 0x16
//	2  1  kind: 1 control, 2 data, 3 end, 4 credit, 5 reset
//	3  1  flags, must be zero
//	4  4  stream id, big endian
//	8  4  payload length, big endian
//
// Control frames travel on stream 0 and hold exactly one JSON object with a
// "type" member. Data frames hold raw bytes of one stream, an end frame closes
// it (empty payload), a reset frame aborts it (payload: reason, UTF-8, at most
// 1 KiB). A credit frame carries a big endian uint32: so many more bytes may be
// sent on that stream.
//
// # Streams
//
// Stream 1 is the standard output and stream 2 the standard error of the code
// that runs; both flow from the runner only, are never ended and need no
// credit, because the output bound limits them. Every other stream is announced
// by a control message that names its id: brig uses odd ids from 3, the runner
// even ids from 4, each strictly increasing and never used twice. Such a stream
// starts with InitialCredit bytes; its receiver grants more as it consumes, so
// that a large transfer never stands in the way of an interrupt.
//
// # Messages
//
// brig speaks first. It sends hello, the runner answers ready; a runner that
// hears no hello for HelloTimeout ends. Then, from brig:
//
//	run   {id, code, size, filename, argv, once}  code: the stream with the source
//	call  {id, op, args, in}                      in: stream with input, or 0
//
// and from the runner:
//
//	started {run}                     output from here on belongs to this run
//	gap     {run, name, bytes}        so many bytes of that output were dropped here
//	display {run, role, bundle, ...}  a MIME bundle; large parts on streams of their own
//	exit    {run, outcome, ...}       after the last output and the last display stream
//	reply   {id, error, body, out}    out: the stream with output, or 0
//
// Output that arrives outside started and exit is late: it belongs to the run
// that ended last. Calls are answered beside a run, except those that need the
// interpreter, which are answered with code "busy" while one is active.
//
// # Resume
//
// A runner that was greeted with a lease outlives its connection: see Resume. A
// signal tells it that brig is back, marks in both directions say where the new
// conversation begins, and the runner's first message is
//
//	resumed {ready, run, ended}  run: still running, its output is dropped
//
// after which both sides have no stream open and nothing to answer.
package wire
