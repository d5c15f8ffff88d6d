module gotar

go 1.19
