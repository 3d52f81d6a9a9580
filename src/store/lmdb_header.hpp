// Our lmdb.h, by its place: the system may have LMDB's own.
#pragma once

#include <lmdb/lmdb.h>
