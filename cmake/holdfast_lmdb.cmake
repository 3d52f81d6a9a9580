# What programs and tests against LMDB's interface are built with: our own library, linked statically, whatever of LMDB
# is installed.
#   HOLDFAST_LMDB_INCLUDE   the directory of lmdb.h
#   HOLDFAST_LMDB_LIBRARY   the target to link
set(HOLDFAST_LMDB_INCLUDE ${HOLDFAST_INCLUDE_ROOT}/lmdb)
set(HOLDFAST_LMDB_LIBRARY hf_store)
