package cache

import (
	"errors"
	"fmt"
)

// CheckRings verifies that the headers tile each ring and that the bytes of
// live frames add up. No frame may be in the middle of Publish.
func (c *Cache) CheckRings() error {
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		err := errors.Join(s.small.check(), s.main.check())
		s.mu.Unlock()
		if err != nil {
			return fmt.Errorf("shard %d: %w", i, err)
		}
	}
	return nil
}

func (s *ring) check() error {
	if s.lo > s.pos || s.pos > s.end || s.end > s.hi || s.hi > s.lo+s.max {
		return fmt.Errorf("lo %d pos %d end %d hi %d max %d", s.lo, s.pos, s.end, s.hi, s.max)
	}
	if limit := s.limit.Load(); (limit-s.lo)%unit != 0 || (s.hi-s.lo)%unit != 0 {
		return fmt.Errorf("lo %d hi %d limit %d: not whole units", s.lo, s.hi, limit)
	}
	var used int64
	for _, part := range [][2]int64{{s.lo, s.pos}, {s.end, s.hi}} {
		off := part[0]
		for off < part[1] {
			h := s.c.header(off)
			if h.size == 0 {
				return fmt.Errorf("header at %d has size 0", off)
			}
			size := int64(h.size) * unit
			if h.flags&flagLive != 0 {
				used += size
				if addr := h.slot.Load(); addr != 0 {
					if w := slotAt(addr).Load(); w&locMask != locOf(off) {
						return fmt.Errorf("frame at %d: slot shows %#x", off, w)
					}
				}
			}
			off += size
		}
		if off != part[1] {
			return fmt.Errorf("tiles of [%d, %d) end at %d", part[0], part[1], off)
		}
	}
	if used != s.used {
		return fmt.Errorf("live frames hold %d bytes, counted %d", used, s.used)
	}
	return nil
}

// Pinned counts the slots with pins.
func (s *Slots) Pinned() (n int) {
	for i := range s.words {
		if s.words[i].Load()>>pinShift != 0 {
			n++
		}
	}
	return n
}

// StrayPin adds n pins to slot i, as lookups do that are about to find it empty.
func (s *Slots) StrayPin(i, n int) { s.words[i].Add(uint64(n) << pinShift) }

// Pin returns another Frame of the same bytes, to be released by itself. A
// frame with several pins is not published any more.
func (f Frame) Pin() Frame {
	f.pin.Add(pinOne)
	return f
}
