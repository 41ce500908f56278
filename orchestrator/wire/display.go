package wire

import "io"

// maxDisplayNames bounds what the names in the displays of one run take, in
// bytes: an empty display is not free.
const maxDisplayNames = 16 << 20

// displays assembles the displays of one run, and passes each on once it and
// all before it are complete. It belongs to the reader goroutine.
type displays struct {
	limit int64 // of all payloads together
	ring  *ring
	bytes int64
	names int
	count int
	queue []*assembly
	done  func() // called when the queue is empty; nil: more may come
}

// assembly is one display on its way.
type assembly struct {
	run     RunID
	display Display
	missing int  // streams that have not ended
	broken  bool // a stream was aborted: it can never be shown
}

// announce accounts for a display and accepts its streams.
func (d *displays) announce(m *Mux, message DisplayMessage) error {
	d.count++
	if d.count > MaxDisplays {
		return violation("more than %d displays in one run", MaxDisplays)
	}
	a := &assembly{run: message.Run, display: Display{Role: message.Role, Data: make([]Part, len(message.Bundle))}}
	d.names += eventCost
	for i, p := range message.Bundle {
		d.bytes += p.Size
		d.names += eventCost + len(p.MIME)
		if d.bytes > d.limit || d.names > maxDisplayNames {
			return violation("displays of one run beyond %d bytes", d.limit)
		}
		part := &a.display.Data[i]
		part.MIME = p.MIME
		if p.Text != nil {
			part.Data = []byte(*p.Text)
			continue
		}
		a.missing++
		if err := m.AcceptFunc(p.Stream, d.part(a, part, p.Size)); err != nil {
			return err
		}
	}
	d.queue = append(d.queue, a)
	d.deliver()
	return nil
}

// part receives the stream of one part.
func (d *displays) part(a *assembly, part *Part, size int64) func([]byte, error) error {
	return func(p []byte, end error) error {
		if int64(len(part.Data))+int64(len(p)) > size {
			return violation("display part %s of more than its %d bytes", quoted(part.MIME), size)
		}
		if end == nil {
			part.Data = append(part.Data, p...)
			return nil
		}
		a.missing--
		if end != io.EOF { //nolint:errorlint // the contract of AcceptFunc
			a.broken = true
		} else if int64(len(part.Data)) != size {
			return violation("display part %s of %d bytes, announced with %d", quoted(part.MIME), len(part.Data), size)
		}
		d.deliver()
		return nil
	}
}

func (d *displays) deliver() {
	for len(d.queue) > 0 && d.queue[0].missing == 0 {
		a := d.queue[0]
		d.queue[0] = nil
		d.queue = d.queue[1:]
		if !a.broken {
			d.ring.add(Event{Kind: EventDisplay, Run: a.run, Display: &a.display})
		}
	}
	if len(d.queue) == 0 && d.done != nil {
		d.done()
	}
}

// whenComplete says that no more displays come; done is called, once, when all have been delivered.
func (d *displays) whenComplete(done func()) {
	d.done = done
	d.deliver()
}
