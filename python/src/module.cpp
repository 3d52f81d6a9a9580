// The extension module holdfast._core.
#include <array>
#include <cstdlib>
#include <set>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings.hpp"
#include "convert.hpp"

namespace nb = nanobind;

namespace holdfast::python {

namespace {

/// All sessions of this process, for fork(). Changed under the interpreter's lock.
std::set<session*>& all_sessions() {
    static std::set<session*> all;
    return all;
}

durability durability_of(const std::string& name) {
    if (name == "commit") {
        return durability::commit;
    }
    if (name == "atomic") {
        return durability::atomic;
    }
    if (name == "collect") {
        return durability::collect;
    }
    throw nb::value_error("durability is one of 'commit', 'atomic' and 'collect'");
}

const char* name_of(durability of) {
    return of == durability::atomic ? "atomic" : of == durability::collect ? "collect" : "commit";
}

/// Whether a handler of Python has raised an exception, KeyboardInterrupt say. It stays set in this thread.
bool has_signal_raised() noexcept {
    const nb::gil_scoped_acquire acquired;
    return PyErr_CheckSignals() != 0;
}

std::shared_ptr<session> open_session(const std::string& path, const std::string& mode, const std::string& durability,
                                      const nb::dict& options) {
    session_options wanted;
    if (mode.size() != 1 || std::string("rwax").find(mode) == std::string::npos) {
        throw nb::value_error("mode is one of 'r', 'w', 'a' and 'x'");
    }
    wanted.mode = mode[0];
    wanted.gives_up = &has_signal_raised;
    wanted.heap.durability = durability_of(durability);
    const auto get = [&options](const char* name, auto& into) {
        if (options.contains(name)) {
            into = nb::cast<std::remove_reference_t<decltype(into)>>(options[name]);
        }
    };
    get("reservation", wanted.heap.reservation);
    get("segment_size", wanted.heap.segment_size);
    get("maximum_size", wanted.heap.maximum_size);
    get("maximum_uncommitted", wanted.heap.maximum_uncommitted);
    get("verify", wanted.heap.verify);
    get("hardened", wanted.heap.hardened);
    get("shared", wanted.heap.shared);
    get("accept_process_crash_only", wanted.heap.accept_process_crash_only);
    get("accept_machine_restart", wanted.heap.accept_machine_restart);
    wanted.heap.commit_on_close = false;  // close() commits
    std::shared_ptr<session> made;
    {
        const nb::gil_scoped_release released;
        made = std::shared_ptr<session>(std::make_unique<session>(path, wanted).release(), [](session* ended) {
            const std::unique_ptr<session> owner(ended);
            const nb::gil_scoped_acquire acquired;
            all_sessions().erase(ended);
        });
    }
    all_sessions().insert(made.get());
    return made;
}

nb::object entries(const std::shared_ptr<session>& of) {
    std::shared_ptr<held_object> made;
    guarded(*of, false, [&] {
        const value place = of->entries();
        static_cast<void>(of->reading().space.object_of<values::dict>(place));
        made = std::make_shared<held_object>(of, place.object.get(), kind::dict, std::make_shared<found_at>());
    });
    return nb::cast(made);
}

/// An array of zeros under a key of the heap; nothing changes where another thread has stored something there.
void make_array(const std::shared_ptr<session>& of, nb::handle key, const std::string& type,
                std::vector<std::uint64_t> shape, std::uint64_t bytes) {
    const document place = to_key(key);
    document zeros;
    zeros.what = kind::array;
    zeros.array = std::make_shared<array_content>();
    zeros.array->type = type;
    zeros.array->shape = std::move(shape);
    zeros.array->bytes = bytes;
    guarded(*of, true, [&] {
        auto& in = *of->reading().space.object_of<values::dict>(of->entries());  // where it lies never changes
        of->write([&](contents& within) {
            if (!within.find(in, place)) {
                within.put(in, place, within.build(zeros), of->root());
            }
        });
    });
}

/// The sessions whose locks the forking thread has, so that no operation is under way in the child.
std::vector<std::shared_ptr<session>>& locked_sessions() {
    static std::vector<std::shared_ptr<session>> locked;
    return locked;
}
void lock_all() {
    std::vector<std::shared_ptr<session>> found;
    for (session* const each : all_sessions()) {
        if (auto alive = each->weak_from_this().lock()) {
            found.push_back(std::move(alive));
        }
    }
    for (const auto& each : found) {
        if (!each->lock().try_lock()) {  // whatever signals come: the fork goes on in any case
            const nb::gil_scoped_release released;
            each->lock().lock();
        }
    }
    locked_sessions() = std::move(found);
}
void unlock_all() {
    for (const auto& each : locked_sessions()) {
        each->lock().unlock();
    }
    locked_sessions().clear();
}
/// Also those that another thread has opened since lock_all(): hooks that run before the fork may let it go on.
void forget_all() {
    for (session* const each : all_sessions()) {
        each->forget_parent();
    }
    locked_sessions().clear();
    forget_stores_of_parent();
}

/// False where others have the lock, or another task of this thread has begun a transaction, and it does not wait.
bool begin(const std::shared_ptr<session>& of, std::uint64_t number, bool by_task, bool waits) {
    if (!waits) {
        if (of->is_owner() && !is_inside(*of)) {
            return false;
        }
        const std::unique_lock lock(of->lock(), std::try_to_lock);
        if (lock.owns_lock()) {
            const nb::gil_scoped_release released;
            of->begin(number, by_task);
        }
        return lock.owns_lock();
    }
    guarded(*of, of->covers_arrays(), [&] { of->begin(number, by_task); });
    return true;
}

/// Of a transaction that is durable later.
struct python_ticket {
    std::shared_ptr<session> of;
    ticket waits_for;
};

python_ticket end(const std::shared_ptr<session>& of, std::uint64_t number, bool commit, bool durable) {
    python_ticket done{of, {}};
    if (of->is_child()) {
        if (!commit) {
            return done;  // it is the parent's, and nothing is there to be taken back
        }
    } else if (!of->is_owner()) {  // asked before the lock, which the owner has
        throw nb::value_error(of->in_transaction() ? "this thread has not begun the transaction"
                                                   : "this transaction has ended");
    } else if (!of->has_level(number)) {
        throw nb::value_error("this transaction has ended");
    }
    locked(*of, true, [&] { done.waits_for = of->end(number, commit, durable); });
    return done;
}

python_ticket commit_later(const std::shared_ptr<session>& of) {
    python_ticket made{of, {}};
    guarded(*of, true, [&] { made.waits_for = of->commit_later(); });
    return made;
}

void wait(const std::shared_ptr<session>& of) {
    const nb::gil_scoped_release released;
    const std::lock_guard waited(of->lock());
}

/// The sessions of this process that are not gone.
nb::list sessions() {
    nb::list found;
    for (session* const each : all_sessions()) {
        if (auto alive = each->weak_from_this().lock()) {
            found.append(nb::cast(std::move(alive)));
        }
    }
    return found;
}

/// Those of a writer in durability `atomic`.
nb::dict as_dict(const protocol_counters& of) {
    nb::dict made;
    made["records"] = of.durable_records;
    made["fences"] = of.fences;
    made["media_bytes"] = of.media_bytes;
    made["checkpoints"] = of.checkpoints;
    made["checkpoint_ns"] = of.checkpoint_ns;
    made["waits"] = of.waits;
    return made;
}

nb::list as_list(const neighbours_report& of) {
    nb::list made;
    for (const reader_report& each : of.readers) {
        nb::dict one;
        one["process"] = each.process;
        one["version"] = each.is_opening ? nb::object(nb::none()) : nb::object(nb::int_(each.version));
        one["since_ns"] = each.since_ns;
        one["refreshed_ns"] = each.refreshed_ns;
        made.append(one);
    }
    return made;
}

nb::dict statistics(const std::shared_ptr<session>& of) {
    heap_statistics found;
    neighbours_report neighbours;
    protocol_counters counters;
    std::uint64_t free = 0;
    bool is_atomic = false;
    guarded(*of, false, [&] {
        const manager& heap = of->to_read();
        found = heap.statistics();
        free = heap.get_free_memory();
        neighbours = heap.neighbours();
        is_atomic = !heap.read_only() && heap.durability() == durability::atomic;
        counters = heap.counters();
    });
    nb::dict made;
    made["size"] = found.user_bytes;
    made["allocated"] = found.user_bytes - free;
    made["allocated_blocks"] = found.allocated_blocks;
    made["free_bytes"] = found.free_bytes;
    made["largest_free_block"] = found.largest_free_block;
    made["apparent_bytes"] = found.apparent_bytes;
    made["charged_bytes"] = found.charged_bytes;
    made["maximum_size"] = found.maximum_size;
    made["reserved_address_space"] = found.reserved_address_space;
    made["segments"] = found.segments;
    made["segment_size"] = found.segment_size;
    made["slabs"] = found.slabs;
    made["extents"] = found.extents;
    made["commits"] = found.commit_sequence;
    made["last_commit_ns"] = found.last_commit_ns;
    made["created_ns"] = found.created_ns;
    made["recoveries"] = found.recoveries;
    made["recovered"] = found.recovered;
    made["log_bytes"] = found.log_bytes;
    made["watched_bytes"] = found.watched_bytes;
    made["private_bytes"] = found.private_bytes;
    made["arrays_held"] = of->arrays_held();
    made["writer"] = neighbours.writer;
    made["readers"] = as_list(neighbours);
    if (is_atomic) {
        made["atomic"] = as_dict(counters);
    }
    return made;
}

/// A row of bytes for each extent: Heap.map() has their names.
nb::bytes extents(const std::shared_ptr<session>& of) {
    using row = std::array<std::uint64_t, 7>;
    std::vector<row> rows;
    guarded(*of, true, [&] {
        of->to_read().for_each_extent([&rows](const extent_info& each) {
            const auto kind = static_cast<std::uint64_t>(each.kind);
            rows.push_back(
                {each.offset, each.bytes, kind, each.block_size, each.blocks, each.live_blocks, each.backed_bytes});
        });
    });
    return nb::bytes(rows.data(), rows.size() * sizeof(row));
}

nb::dict shrink(const std::shared_ptr<session>& of, std::uint64_t target) {
    shrink_report done;
    guarded(*of, true, [&] { done = of->shrink(target); });
    nb::dict made;
    made["charged_before"] = done.charged_before;
    made["charged_after"] = done.charged_after;
    made["given_back"] = done.given_back;
    made["shortened"] = done.shortened;
    return made;
}

/// The exception for an error: make_error() of the package.
void raise(const char* code, const std::string& message, const detail::error_fields& fields) {
    const nb::object made = nb::handle(python_package().make_error)(
        code, shown(message), shown(fields.path), shown(fields.field), shown(fields.found), shown(fields.expected),
        shown(fields.hint), fields.os_error);
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(made.ptr())), made.ptr());
}

}  // namespace

void bind_errors(nb::module_& into) {
    into.def("configure", [](nb::object wrap_dict, nb::object wrap_list, nb::object view_array, nb::object describe,
                             nb::object unpickle, nb::object make_extended, nb::object make_error, nb::object entered,
                             nb::object is_of_running_task) {
        // Kept for as long as the process runs, because a session may end after the module.
        package& of = python_package();
        of.wrap_dict = wrap_dict.release().ptr();
        of.wrap_list = wrap_list.release().ptr();
        of.view_array = view_array.release().ptr();
        of.describe_other = describe.release().ptr();
        of.unpickle = unpickle.release().ptr();
        of.make_extended = make_extended.release().ptr();
        of.make_error = make_error.release().ptr();
        of.entered = entered.release().ptr();
        of.is_of_running_task = is_of_running_task.release().ptr();
    });
    nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
        try {
            std::rethrow_exception(thrown);
        } catch (const error& failure) {
            if (PyErr_Occurred() != nullptr) {
                return;  // it is why a wait has ended: has_signal_raised()
            }
            raise(make_error_code(failure.reason()).message().c_str(), failure.what(),
                  {failure.path(), failure.field(), failure.found(), failure.expected(), failure.hint(),
                   failure.os_error()});
        } catch (const bad_alloc& failure) {
            raise(make_error_code(failure.reason()).message().c_str(), failure.what(), {});
        }
    });
}

/// Beside a writer.
void bind_reading(nb::class_<session>& to) {
    using owner = std::shared_ptr<session>;
    to.def("refresh",
           [](const owner& of) {
               std::uint64_t version = 0;
               guarded(*of, true, [&] { version = of->refresh(); });
               return version;
           })
        .def("version",
             [](const owner& of) {
                 std::uint64_t version = 0;
                 guarded(*of, false, [&] { version = of->version(); });
                 return version;
             })
        .def("wait_for_change", [](const owner& of, std::uint64_t milliseconds) {
            const nb::gil_scoped_release released;
            return of->wait_for_change(std::chrono::milliseconds(milliseconds));
        });
}

void bind_sessions(nb::module_& into) {
    using owner = std::shared_ptr<session>;
    nb::class_<python_ticket>(into, "Ticket").def("wait", [](const python_ticket& of) {
        const nb::gil_scoped_release released;
        of.of->sync(of.waits_for);
    });
    nb::class_<session> sessions_type(into, "Session");
    sessions_type.def_prop_ro("path", [](const session& of) { return of.path(); })
        .def_prop_ro("closed", &session::is_closed)
        .def_prop_ro("read_only", &session::read_only)
        .def_prop_ro("shared", &session::shared)
        .def_prop_ro("arrays_held", &session::arrays_held)
        .def_prop_ro("in_transaction", &session::in_transaction)
        .def_prop_ro("owns_transaction", &session::is_owner)
        .def_prop_ro("transaction", &session::transaction_number)
        .def_prop_ro("arrays_in_use",
                     [](const session& of) {
                         nb::list found;
                         for (const std::string& each : of.arrays_in_use()) {
                             found.append(shown(each));
                         }
                         return found;
                     })
        .def_prop_ro("identity",
                     [](const session& of) { return nb::make_tuple(of.identity().first, of.identity().second); })
        .def_prop_ro("durability",
                     [](const owner& of) {
                         durability found{};
                         guarded(*of, false, [&] { found = of->heap().durability(); });
                         return name_of(found);
                     })
        .def("entries", &entries)
        .def("make_array", &make_array)
        .def("statistics", &statistics)
        .def("extents", &extents)
        .def("shrink", &shrink)
        .def("begin", &begin)
        .def("end", &end)
        .def("wait", &wait)
        .def("pin",
             [](const owner& of, std::uintptr_t at, std::size_t bytes) {
                 guarded(*of, false, [&] { of->pin(reinterpret_cast<const void*>(at), bytes); });
             })
        .def("unpin",
             [](const owner& of, std::uintptr_t at, std::size_t bytes) {
                 guarded(*of, false, [&] { of->unpin(reinterpret_cast<const void*>(at), bytes); });
             })
        .def("commit_later", &commit_later)
        .def("commit", [](const owner& of) { guarded(*of, true, [&] { of->commit(); }); })
        .def("close", [](const owner& of, bool commit) { guarded(*of, true, [&] { of->close(commit); }); })
        .def("snapshot", [](const owner& of, const std::string& to) { guarded(*of, true, [&] { of->snapshot(to); }); })
        .def("check", [](const owner& of, bool pages) {
            std::vector<std::string> lines;
            guarded(*of, true, [&] { lines = of->check(pages); });
            nb::list found;
            for (const std::string& line : lines) {
                found.append(shown(line));
            }
            return found;
        });
    bind_reading(sessions_type);
    into.def("open", &open_session);
    into.def("sessions", &sessions);
    into.def("before_fork", &lock_all);
    into.def("after_fork_in_parent", &unlock_all);
    into.def("after_fork_in_child", &forget_all);
}

}  // namespace holdfast::python

NB_MODULE(_core, core) {
    nb::set_leak_warnings(false);
    holdfast::python::bind_errors(core);
    holdfast::python::bind_sessions(core);
    holdfast::python::bind_containers(core);
    holdfast::python::bind_stores(core);
    holdfast::python::bind_graphs(core);
    core.attr("version") = HOLDFAST_VERSION;
}
