// A library whose constructor calls the program that loads it: the loader's lock is held then.
extern "C" void call_under_lock();

namespace {

[[gnu::constructor]] void construct() { call_under_lock(); }

}  // namespace
