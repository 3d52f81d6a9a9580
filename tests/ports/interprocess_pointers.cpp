// What the examples of Boost.Interprocess's documentation do: smart pointers, Boost.Intrusive and locks.
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <boost/intrusive/list.hpp>
#include <boost/intrusive/set.hpp>

#include "ports/interprocess_examples.hpp"
#include "ports/port.hpp"

namespace bi = boost::intrusive;

namespace {

using port::require;

/// Counts its references itself, as boost::intrusive_ptr wants it.
struct counted {
    explicit counted(segment_manager* segment) : from(segment) {}
    friend void intrusive_ptr_add_ref(counted* object) { ++object->references; }
    friend void intrusive_ptr_release(counted* object) {
        if (--object->references == 0) {
            object->from.get_segment_manager()->destroy_ptr(object);
        }
    }
    unsigned references = 0;
    allocator<counted> from;
};

struct shared_node;
using node_pointer = bip::managed_shared_ptr<shared_node, bip::managed_mapped_file>::type;
using weak_node_pointer = bip::managed_weak_ptr<shared_node, bip::managed_mapped_file>::type;
struct shared_node {
    explicit shared_node(int number) : value(number) {}
    int value;
    node_pointer next;
    weak_node_pointer previous;
};

struct linked : bi::list_base_hook<bi::void_pointer<bip::offset_ptr<void>>>,
                bi::set_base_hook<bi::void_pointer<bip::offset_ptr<void>>, bi::optimize_size<true>> {
    explicit linked(int number) : value(number) {}
    friend bool operator<(const linked& a, const linked& b) { return a.value < b.value; }
    int value;
};
using linked_list = bi::list<linked, bi::base_hook<bi::list_base_hook<bi::void_pointer<bip::offset_ptr<void>>>>>;
using linked_set =
    bi::set<linked, bi::base_hook<bi::set_base_hook<bi::void_pointer<bip::offset_ptr<void>>, bi::optimize_size<true>>>>;
static_assert(sizeof(bi::set_base_hook<bi::void_pointer<bip::offset_ptr<void>>, bi::optimize_size<true>>) == 24,
              "the colour of a node lies in a pointer");

struct lock_box {
    bip::interprocess_mutex mutex;
    bip::interprocess_recursive_mutex recursive;
    bip::interprocess_upgradable_mutex upgradable;
    bip::interprocess_sharable_mutex sharable;
    bip::interprocess_condition changed;
    bip::interprocess_semaphore places{2};
    int value = 0;
};

void run_threads(int count, void (*work)(lock_box&), lock_box& box) {
    std::vector<std::thread> threads;
    for (int i = 0; i < count; ++i) {
        threads.emplace_back([work, &box] { work(box); });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
}

/// Begins empty, so it is destroyed after all that the library makes when a segment is first opened.
struct left_open {
    using owner = bip::managed_unique_ptr<linked, bip::managed_mapped_file>::type;
    bip::managed_mapped_file file;
    owner owned = owner(nullptr, owner::deleter_type(nullptr));
};
left_open closed_at_exit;

}  // namespace

void smart_pointers(const std::string& file) {
    {
        bip::managed_mapped_file segment(bip::create_only, file, 1U << 16U);
        {
            auto owner = bip::make_managed_unique_ptr(segment.construct<int>("owned")(5), segment);
            require(*owner == 5 && segment.find<int>("owned").first == owner.get().get(), "unique_ptr");
            const bip::scoped_ptr<int, bip::deleter<int, segment_manager>> scoped(segment.construct<int>("scoped")(6),
                                                                                  segment.get_deleter<int>());
            require(*scoped == 6, "scoped_ptr");
        }
        require(segment.get_num_named_objects() == 0, "their objects are destroyed");

        bip::intrusive_ptr<counted, bip::offset_ptr<void>> first(
            segment.construct<counted>("counted")(segment.get_segment_manager()));
        auto second = first;
        first.reset();
        require(second->references == 1 && segment.find<counted>("counted").second == 1, "intrusive_ptr");
        second.reset();
        require(segment.find<counted>("counted").second == 0, "the last one destroys");

        auto* root = segment.construct<node_pointer>("root")(
            bip::make_managed_shared_ptr(segment.construct<shared_node>(bip::anonymous_instance)(1), segment));
        (*root)->next =
            bip::make_managed_shared_ptr(segment.construct<shared_node>(bip::anonymous_instance)(2), segment);
        (*root)->next->previous = *root;
        require(root->use_count() == 1 && (*root)->next->previous.lock()->value == 1, "shared_ptr and weak_ptr");
    }
    bip::managed_mapped_file segment(bip::open_only, file);
    auto* root = segment.find<node_pointer>("root").first;
    const weak_node_pointer watcher(*root);
    require(root->use_count() == 1 && (*root)->next->value == 2, "the list of the first session");
    require((*root)->next->previous.lock() == *root, "a weak pointer of the first session");
    require(segment.destroy<node_pointer>("root") && watcher.expired(), "the last pointer destroys the list");
}

void intrusive_containers(const std::string& file) {
    bip::managed_mapped_file segment(bip::create_only, file, 1U << 16U);
    auto* list = segment.construct<linked_list>("list")();
    auto* set = segment.construct<linked_set>("set")();
    for (int i = 0; i < 50; ++i) {
        auto* node = segment.construct<linked>(bip::anonymous_instance)(i * 37 % 50);
        list->push_back(*node);
        set->insert(*node);
    }
    // A copy that is open at the same time lies at another address.
    segment.native().snapshot(file + ".copy");
    const bip::managed_mapped_file copy(bip::open_read_only, file + ".copy");
    require(copy.get_address() != segment.get_address(), "another address");
    const auto* copied_list = copy.find<linked_list>("list").first;
    require(copied_list->size() == 50 && copied_list->front().value == 0 && copied_list->back().value == 13, "a list");
    int expected = 0;
    for (const linked& node : *copy.find<linked_set>("set").first) {
        require(node.value == expected++ && copy.belongs_to_segment(&node), "a set, in order");
    }
    require(expected == 50, "all of the set");
    while (!list->empty()) {
        linked& node = list->front();
        list->pop_front();
        set->erase(set->iterator_to(node));
        segment.destroy_ptr(&node);
    }
    require(set->empty() && copied_list->size() == 50, "the original is empty, the copy is not");
}

void locks(const std::string& file) {
    using namespace std::chrono_literals;
    bip::managed_mapped_file segment(bip::create_only, file, 1U << 16U);
    lock_box& box = *segment.construct<lock_box>("box")();
    const auto add = [](lock_box& in) {
        for (int i = 0; i < 5000; ++i) {
            const bip::scoped_lock<bip::interprocess_mutex> lock(in.mutex);
            ++in.value;
        }
    };
    run_threads(4, add, box);
    require(box.value == 20'000, "interprocess_mutex");
    run_threads(
        4,
        [](lock_box& in) {
            for (int i = 0; i < 2000; ++i) {
                const bip::scoped_lock<bip::interprocess_recursive_mutex> outer(in.recursive);
                const bip::scoped_lock<bip::interprocess_recursive_mutex> inner(in.recursive);
                ++in.value;
            }
        },
        box);
    require(box.value == 28'000, "interprocess_recursive_mutex");
    run_threads(
        4,
        [](lock_box& in) {
            for (int i = 0; i < 1000; ++i) {
                bip::upgradable_lock<bip::interprocess_upgradable_mutex> reading(in.upgradable);
                const int read = in.value;
                const bip::scoped_lock<bip::interprocess_upgradable_mutex> writing(boost::move(reading));
                in.value = read + 1;
            }
        },
        box);
    require(box.value == 32'000, "interprocess_upgradable_mutex");

    bip::sharable_lock<bip::interprocess_sharable_mutex> reader(box.sharable);
    require(box.sharable.try_lock_sharable() && !box.sharable.try_lock(), "readers, and no writer");
    box.sharable.unlock_sharable();
    require(!box.sharable.timed_lock(std::chrono::steady_clock::now() + 1ms), "a writer waits, and gives up");
    reader.unlock();
    require(box.sharable.try_lock() && !box.sharable.try_lock_sharable(), "a writer, and no readers");
    box.sharable.unlock();

    box.places.wait();
    box.places.wait();
    require(!box.places.try_wait() && box.places.get_count() == 0, "interprocess_semaphore");
    std::thread poster([&box] { box.places.post(); });
    box.places.wait();
    poster.join();

    std::thread changer([&box] {
        const bip::scoped_lock<bip::interprocess_mutex> lock(box.mutex);
        box.value = -1;
        box.changed.notify_all();
    });
    {
        bip::scoped_lock<bip::interprocess_mutex> lock(box.mutex);
        box.changed.wait(lock, [&box] { return box.value == -1; });
        require(!box.changed.timed_wait(lock, std::chrono::steady_clock::now() + 1ms, [] { return false; }), "in vain");
    }
    changer.join();
}

/// Was: a lock that its process held when it was killed, and that a flush() had stored so, was never free again.
void locks_of_the_dead(const std::string& file) {
    const pid_t child = fork();  // lint-allow(fork): a program without GoogleTest
    require(child >= 0, "fork");
    if (child == 0) {
        bip::managed_mapped_file segment(bip::create_only, file, 1U << 16U);
        auto* box = segment.construct<lock_box>("box")();
        box->mutex.lock();
        box->recursive.lock();
        box->sharable.lock_sharable();
        _exit(segment.flush() ? 0 : 1);
    }
    int status = 0;
    require(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child");
    bip::managed_mapped_file segment(bip::open_only, file);
    auto* box = segment.find<lock_box>("box").first;
    require(box->mutex.try_lock() && box->recursive.try_lock() && box->sharable.try_lock(), "free in the next run");
    box->mutex.unlock();
    box->recursive.unlock();
    box->sharable.unlock();
}

/// The destructors of static objects destroy objects of a segment, and then commit it.
void static_objects(const std::string& file) {
    const pid_t child = fork();  // lint-allow(fork): a program without GoogleTest
    require(child >= 0, "fork");
    if (child == 0) {
        closed_at_exit.file = bip::managed_mapped_file(bip::create_only, file, 65536);
        closed_at_exit.file.construct<int>("kept")(7);
        closed_at_exit.owned =
            bip::make_managed_unique_ptr(closed_at_exit.file.construct<linked>("owned")(1), closed_at_exit.file);
        std::exit(0);
    }
    int status = 0;
    require(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0,
            "the process ends in order");
    bip::managed_mapped_file again(bip::open_only, file);
    require(again.find<int>("kept").first != nullptr, "the last commit is there");
    require(again.find<linked>("owned").first == nullptr, "what the pointer owned is gone");
}
