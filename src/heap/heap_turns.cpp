#include "heap/heap_turns.hpp"

#include <new>
#include <string>
#include <utility>

#include "base/sparse_table.hpp"
#include "heap/heap_opening.hpp"
#include "heap/registry.hpp"

namespace holdfast::heap {

namespace {

using segment::caught_up;

/// A failure is no more than a reason to open the heap anew.
caught_up catch_up(segment::heap_files& files) {
    const auto done = files.directories()->was_left_in_order ? files.commits().catch_up()
                                                             : base::result<caught_up>(caught_up::not_at_all);
    return done ? *done : caught_up::not_at_all;
}

}  // namespace

/// What an engine keeps in memory is made of the heap's tables, and of what its own process has changed of them since
/// it read them. So where no other process has changed a table, it is as its process has left it, as where nobody had
/// the turn.
base::result<std::unique_ptr<engine>> turns_of_heap::follow(std::unique_ptr<engine> old,
                                                            const engine_options& options) {
    unregister_engine(*old);
    const std::string path = old->files().paths().directory();
    const auto directories = old->files().directories();
    directories->rests = false;
    const caught_up done = catch_up(old->files());
    if (done == caught_up::content) {
        HF_TRY(register_engine(*old));
        old->files().readers().admit(options.by_turns);
        return old;
    }
    const base::kept_sparse_memory tables;  // the next engine has as large ones
    auto files = old->take_files();
    old.reset();
    if (done == caught_up::tables) {
        files->bitmaps().admit_none();
        return heap_opening(path, options).write_anew(std::move(files));
    }
    files->mapping().leave_addresses();
    files.reset();
    return heap_opening(path, options).open(persist::access_mode::read_write, directories);
}

/// Without memory for the registry, pointers that lead to the heap by its name find none.
void turns_of_heap::rest(engine& heap) noexcept {
    heap.files().directories()->rests = true;
    try {
        static_cast<void>(make_reader_of_engine(heap).ok());
    } catch (const std::bad_alloc&) {
        return;
    }
}

base::result<void> turns_of_heap::wake(engine& heap) {
    heap.files().directories()->rests = false;
    return make_engine_of_reader(heap);
}

}  // namespace holdfast::heap
