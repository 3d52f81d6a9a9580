# What programs and tests against LMDB's interface are built with: our own library, linked statically, where the project
# builds it, else Debian's (liblmdb-dev), on which all of them run too.
#   HOLDFAST_LMDB_INCLUDE   the directory of lmdb.h
#   HOLDFAST_LMDB_LIBRARY   the target or the file to link
if(TARGET hf_store)
    set(HOLDFAST_LMDB_INCLUDE ${HOLDFAST_SOURCE_ROOT}/store/include/lmdb)
    set(HOLDFAST_LMDB_LIBRARY hf_store)
else()
    find_path(HOLDFAST_LMDB_INCLUDE lmdb.h)
    find_library(HOLDFAST_LMDB_LIBRARY lmdb)
endif()
