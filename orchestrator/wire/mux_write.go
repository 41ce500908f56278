package wire

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// maxUrgent bounds the bytes of urgent frames that wait for a peer that does not read.
const maxUrgent = 4 << 20

// job is a frame that waits to be written. Its payload is copied when it leaves
// the queue, so that whoever gives up waiting has the payload to himself again.
type job struct {
	frame RawFrame
	done  chan error // capacity 1; nil: nobody waits
}

func (j *job) finish(err error) {
	if j.done != nil {
		j.done <- err
	}
}

type queue struct {
	jobs  []*job
	bytes int
}

func (q *queue) push(j *job) {
	q.jobs = append(q.jobs, j)
	q.bytes += headerSize + len(j.frame.Payload)
}

func (q *queue) pop() *job {
	j := q.jobs[0]
	q.jobs[0] = nil
	q.jobs = q.jobs[1:]
	q.bytes -= headerSize + len(j.frame.Payload)
	return j
}

// remove takes the matching jobs out of the queue.
func (q *queue) remove(match func(*job) bool) (removed []*job) {
	q.jobs = slices.DeleteFunc(q.jobs, func(j *job) bool {
		if !match(j) {
			return false
		}
		q.bytes -= headerSize + len(j.frame.Payload)
		removed = append(removed, j)
		return true
	})
	return removed
}

// writeLoop is the one goroutine that writes. Frames that wait together are
// written together, up to the size of one large frame: each write may wake a
// chain of processes up to the other side.
func (m *Mux) writeLoop() {
	defer close(m.writerDone)
	buf := make([]byte, 0, headerSize+MaxPayload)
	var jobs []*job
	for {
		m.mu.Lock()
		for m.err == nil && len(m.urgent.jobs) == 0 && len(m.bulk.jobs) == 0 {
			m.work.Wait()
		}
		if m.err != nil {
			m.mu.Unlock()
			return
		}
		buf, jobs = buf[:0], jobs[:0]
		for _, from := range []*queue{&m.urgent, &m.bulk} {
			for len(from.jobs) > 0 && len(buf)+headerSize+len(from.jobs[0].frame.Payload) <= cap(buf) {
				j := from.pop()
				buf = j.frame.append(buf)
				jobs = append(jobs, j)
			}
		}
		m.mu.Unlock()

		_, err := m.w.Write(buf)
		for i, j := range jobs {
			j.finish(err)
			jobs[i] = nil
		}
		if err != nil {
			m.writeFailed(fmt.Errorf("write a frame: %w", err))
			return
		}
	}
}

// writeFailed leaves the reading half a moment: a peer that has ended may have
// said how, and that is still to be read.
func (m *Mux) writeFailed(err error) {
	timer := time.NewTimer(closeGrace)
	defer timer.Stop()
	select {
	case <-m.done:
	case <-timer.C:
		m.fail(err)
	}
}

// Send writes a control message and waits until it is written or the connection ends.
func (m *Mux) Send(message Message) error {
	payload, err := EncodeMessage(message)
	if err != nil {
		return err
	}
	return m.submit(context.Background(), &m.urgent, RawFrame{Kind: KindControl, Payload: payload})
}

// Post queues a control message without waiting. Messages keep their order.
// Too many waiting end the connection: the peer does not read.
func (m *Mux) Post(message Message) error {
	payload, err := EncodeMessage(message)
	if err != nil {
		return err
	}
	m.mu.Lock()
	err = m.post(RawFrame{Kind: KindControl, Payload: payload})
	m.mu.Unlock()
	if errors.Is(err, errStalled) {
		m.fail(err)
	}
	return err
}

// post queues an urgent frame. m.mu is held.
func (m *Mux) post(f RawFrame) error {
	if m.err != nil {
		return m.err
	}
	if m.urgent.bytes > maxUrgent {
		return errStalled
	}
	m.urgent.push(&job{frame: f})
	m.work.Signal()
	return nil
}

// Output writes to a standard stream, as the runner. It waits until all is
// written; a message that is sent afterwards also arrives afterwards.
func (m *Mux) Output(stream uint32, p []byte) error {
	if m.o.Role != RoleRunner || (stream != StreamStdout && stream != StreamStderr) {
		panic("BUG: output on a stream that has none")
	}
	for len(p) > 0 {
		n := min(len(p), MaxPayload)
		if err := m.submit(context.Background(), &m.bulk, RawFrame{Kind: KindData, Stream: stream, Payload: p[:n]}); err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

// submit queues a frame and waits until it is written. On an error it was not
// written, or the connection is of no more use.
func (m *Mux) submit(ctx context.Context, q *queue, f RawFrame) error {
	j := &job{frame: f, done: make(chan error, 1)}
	m.mu.Lock()
	if m.err != nil {
		defer m.mu.Unlock()
		return m.err
	}
	q.push(j)
	m.work.Signal()
	m.mu.Unlock()

	select {
	case err := <-j.done:
		return err
	case <-m.done:
		return m.Err()
	case <-ctx.Done():
		m.mu.Lock()
		q.remove(func(other *job) bool { return other == j })
		m.mu.Unlock()
		return context.Cause(ctx)
	}
}

// resetFrame cuts reason to what a reset frame may carry.
func resetFrame(id uint32, reason string) RawFrame {
	if len(reason) > MaxReason {
		reason = reason[:MaxReason]
	}
	return RawFrame{Kind: KindReset, Stream: id, Payload: []byte(strings.ToValidUTF8(reason, ""))}
}

func creditFrame(id, n uint32) RawFrame {
	return RawFrame{Kind: KindCredit, Stream: id, Payload: binary.BigEndian.AppendUint32(nil, n)}
}
