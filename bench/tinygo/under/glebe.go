//go:build glebe

package under

import _ "github.com/glebe-alloc/glebe/bindings/tinygo"
