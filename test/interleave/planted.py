BUGS = []
