module github.com/glebe-alloc/glebe

go 1.22
