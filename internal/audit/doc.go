// Package audit writes a line for each hold that begins, moves or ends. A slow or full disk never
// delays a lock: lines that cannot be written in time are dropped and counted.
package audit
