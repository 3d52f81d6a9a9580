#include "heap/heap_turns.hpp"

#include <new>
#include <string>
#include <utility>

#include "heap/heap_opening.hpp"
#include "heap/registry.hpp"

namespace holdfast::heap {

namespace {

base::result<bool> catch_up(segment::heap_files& files) {
    HF_TRY_ASSIGN(const bool done, files.commits().catch_up());
    if (done) {
        files.bitmaps().admit_none();
    }
    return done;
}

}  // namespace

base::result<std::unique_ptr<engine>> turns_of_heap::open_anew(std::unique_ptr<engine> old,
                                                               const engine_options& options) {
    unregister_engine(*old);
    const std::string path = old->files().paths().directory();
    const auto hold = old->files().hold();
    auto files = old->take_files();
    old.reset();
    hold->rests = false;
    if (hold->was_left_in_order) {
        if (const auto caught_up = catch_up(*files); caught_up && *caught_up) {
            return heap_opening(path, options).write_anew(std::move(files));
        }
    }
    files->mapping().leave_addresses();
    files.reset();
    return heap_opening(path, options).open(persist::access_mode::read_write, hold);
}

/// Without memory for the registry, pointers that lead to the heap by its name find none.
void turns_of_heap::rest(engine& heap) noexcept {
    unregister_engine(heap);
    heap.files().hold()->rests = true;
    try {
        static_cast<void>(register_reader(heap).ok());
    } catch (const std::bad_alloc&) {
        return;
    }
}

base::result<void> turns_of_heap::wake(engine& heap) {
    unregister_engine(heap);
    heap.files().hold()->rests = false;
    return register_engine(heap);
}

}  // namespace holdfast::heap
