// Behind all public headers: every member of their main templates, so that all that they call must link. Run, it uses
// some.
#include <cstdint>
#include <cstdio>
#include <string_view>

template class holdfast::ordered_index<std::uint64_t, std::uint64_t>;
template class holdfast::ordered_index<std::string_view, std::string_view>;
template class holdfast::hash_index<std::uint64_t, std::uint64_t>;
template class holdfast::hash_index<std::string_view, std::uint64_t>;
template class holdfast::ptr<std::uint64_t>;
template class holdfast::allocator<std::uint64_t>;

int main(int count, char** arguments) {
    if (count != 2) {
        return 2;
    }
    {
        holdfast::manager heap(holdfast::create_only, arguments[1]);
        holdfast::ordered_index<std::uint64_t, std::uint64_t> ordered(heap, "ordered");
        holdfast::hash_index<std::string_view, std::uint64_t> hashed(heap, "hashed");
        ordered.insert(1, 2);
        hashed.insert("one", 2);
        auto* const numbers =
            heap.construct<holdfast::vector<std::uint64_t>>("numbers")(heap.get_allocator<std::uint64_t>());
        numbers->push_back(3);
        heap.transact([&](holdfast::transaction& tx) { tx.store(heap.root(0), tx.make<std::uint64_t>(4U)); });
        holdfast::heap_store store(heap, "store");
        auto changes = store.write();
        changes.put("five", "5");
        changes.commit();
    }
    holdfast::manager heap(holdfast::open_only, arguments[1]);
    const holdfast::ordered_index<std::uint64_t, std::uint64_t> ordered(heap, "ordered");
    const auto* const numbers = heap.find<holdfast::vector<std::uint64_t>>("numbers").first;
    const bool is_there =
        ordered.find(1) == 2 && numbers->back() == 3 && *static_cast<std::uint64_t*>(heap.root(0).get()) == 4;
    std::puts(is_there ? "all headers: linked and run" : "something is lost");
    return is_there ? 0 : 1;
}
