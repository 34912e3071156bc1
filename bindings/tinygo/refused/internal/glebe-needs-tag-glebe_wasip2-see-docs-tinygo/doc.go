// Package refused is imported where a build is refused: its path is the message.
package refused
