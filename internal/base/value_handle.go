package base

import (
	"encoding/binary"
	"math"
)

// ValueHandle is the value of an entry of KindValueHandle: where the value of its key lies. The
// bytes are those of a batch in a native log, see record.AppendSpan, or lie in one piece in a value
// file.
type ValueHandle struct {
	Log    uint64 // number of the log, or of the value file
	Offset int64  // in its file, of the first byte
	Len    uint32 // bytes of the value
	Sum    uint32 // crc32c of the value
	InFile bool   // in a value file
}

// MaxValueHandle is the largest length of an encoded ValueHandle.
const MaxValueHandle = 2*binary.MaxVarintLen64 + binary.MaxVarintLen32 + 4 + 1

// A value file begins with ValueFileMagic and its number (8 bytes, little-endian). Behind this head
// are values, back to back.
const (
	ValueFileMagic = "loamvals"
	ValueFileHead  = len(ValueFileMagic) + 8
)

// inValueFile ends the encoding of a handle that leads into a value file.
const inValueFile = 1

// ValueFile is a file with large values: a log, or a value file.
type ValueFile struct {
	Num    uint64
	InFile bool // it is a value file
}

// FileName is the name of the log or value file.
func (v ValueFile) FileName(f Format) string {
	if v.InFile {
		return f.FileName(FileValues, v.Num)
	}
	return f.FileName(FileLog, v.Num)
}

// File is the log or value file with the value.
func (h ValueHandle) File() ValueFile { return ValueFile{h.Log, h.InFile} }

// AppendValueHandle encodes a handle.
func AppendValueHandle(dst []byte, h ValueHandle) []byte {
	dst = binary.AppendUvarint(dst, h.Log)
	dst = binary.AppendUvarint(dst, uint64(h.Offset))
	dst = binary.AppendUvarint(dst, uint64(h.Len))
	dst = binary.LittleEndian.AppendUint32(dst, h.Sum)
	if h.InFile {
		dst = append(dst, inValueFile)
	}
	return dst
}

// DecodeValueHandle reads the value of an entry of KindValueHandle.
func DecodeValueHandle(b []byte) (h ValueHandle, err error) {
	c := Cutter{B: b}
	log, offset, n := c.Uvarint(), c.Uvarint(), c.Uvarint()
	sum := c.Bytes(4)
	inFile := !c.Bad && len(c.B) == 1 && c.B[0] == inValueFile
	if inFile {
		c.B = nil
	}
	if c.Bad || len(c.B) != 0 || log == 0 || log > MaxFileNum || offset > math.MaxInt64>>1 ||
		n == 0 || n > math.MaxUint32 || inFile && offset < uint64(ValueFileHead) {
		return h, Corruptf("value handle", "log, offset or length malformed or out of range")
	}
	return ValueHandle{Log: log, Offset: int64(offset), Len: uint32(n),
		Sum: binary.LittleEndian.Uint32(sum), InFile: inFile}, nil
}

// ValueLog is what a table refers to of one log, or of one value file.
type ValueLog struct {
	Log    uint64 // number
	InFile bool   // it is a value file
	Values uint64 // how many references there are
	Bytes  uint64 // of these values
	End    uint64 // offset in the log behind the last one
}

// File is the log or value file.
func (l ValueLog) File() ValueFile { return ValueFile{l.Log, l.InFile} }

// AddValueLog counts n values of so many bytes, the last of which ends there in the log. logs are
// in the order of their numbers.
func AddValueLog(logs []ValueLog, more ValueLog) []ValueLog {
	i := len(logs)
	for i > 0 && logs[i-1].Log >= more.Log {
		i--
	}
	if i == len(logs) || logs[i].Log != more.Log {
		logs = append(logs, ValueLog{})
		copy(logs[i+1:], logs[i:])
		logs[i] = ValueLog{Log: more.Log, InFile: more.InFile}
	}
	l := &logs[i]
	l.Values, l.Bytes, l.End = l.Values+more.Values, l.Bytes+more.Bytes, max(l.End, more.End)
	return logs
}
