// A program in the manner of those for Boost.Interprocess: a mapped file with named objects, containers that take
// allocators of the segment manager, and a list of nodes that are linked by offset_ptr. The port is these two includes
// and the namespace.
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <utility>

#include <holdfast/containers.hpp>
#include <holdfast/manager.hpp>

namespace bip = holdfast;

namespace {

using segment_manager = bip::managed_mapped_file::segment_manager;
using int_allocator = bip::allocator<int, segment_manager>;
using int_vector = bip::vector<int, int_allocator>;
using char_allocator = bip::allocator<char, segment_manager>;
using shared_string = bip::basic_string<char, std::char_traits<char>, char_allocator>;
using string_vector = bip::vector<shared_string, bip::allocator<shared_string, segment_manager>>;
using map_value = std::pair<const int, float>;
using int_map = bip::map<int, float, std::less<int>, bip::allocator<map_value, segment_manager>>;

struct list_node {
    bip::offset_ptr<list_node> next;
    int value;
};

void require(bool condition, const char* what) {
    if (!condition) {
        std::fprintf(stderr, "interprocess_port: failed: %s\n", what);
        std::exit(1);
    }
}

void write_everything(const char* path) {
    bip::managed_mapped_file file(bip::create_only, path, 65536);

    file.construct<double>("pi")(3.14159);
    file.construct<std::pair<double, int>>("pairs")[10](1.5, 7);

    const int_allocator allocator(file.get_segment_manager());
    int_vector* numbers = file.construct<int_vector>("numbers")(allocator);
    for (int i = 0; i < 100; ++i) {
        numbers->push_back(i);
    }

    const char_allocator characters(file.get_segment_manager());
    string_vector* words = file.construct<string_vector>("words")(characters);
    shared_string word(characters);
    for (const char* text : {"persistent", "memory", "is a word that does not fit into the string itself"}) {
        word = text;
        words->push_back(word);
    }

    int_map* squares = file.construct<int_map>("squares")(std::less<int>(), allocator);
    for (int i = 0; i < 100; ++i) {
        squares->insert(map_value(i, static_cast<float>(i * i)));
    }

    bip::offset_ptr<list_node> last = nullptr;
    for (int i = 0; i < 10; ++i) {
        auto* node = static_cast<list_node*>(file.allocate(sizeof(list_node)));
        new (node) list_node{last, i};
        last = node;
    }
    file.construct<bip::offset_ptr<list_node>>("list")(last);

    file.construct<int>(bip::unique_instance)(1);
    require(file.find_or_construct<int>("counter")(0) != nullptr, "find_or_construct");
    require(file.get_num_named_objects() == 7, "number of named objects");
    require(file.check_sanity(), "check_sanity");
    file.flush();
}

void change_something(const char* path) {
    bip::managed_mapped_file file(bip::open_only, path);
    auto change = [&] {
        ++*file.find<int>("counter").first;
        file.find<int_vector>("numbers").first->push_back(100);
        file.find<string_vector>("words").first->pop_back();
        file.find<int_map>("squares").first->erase(50);
    };
    file.atomic_func(change);
    const bip::managed_mapped_file::handle_t handle = file.get_handle_from_address(file.find<double>("pi").first);
    require(*static_cast<double*>(file.get_address_from_handle(handle)) == 3.14159, "handle");
    require(file.destroy<std::pair<double, int>>("pairs"), "destroy");
    require(!file.destroy<std::pair<double, int>>("pairs"), "destroy, twice");
}

void read_everything(const char* path) {
    const bip::managed_mapped_file file(bip::open_read_only, path);
    const std::pair<int_vector*, std::size_t> numbers = file.find<int_vector>("numbers");
    require(numbers.second == 1 && numbers.first->size() == 101 && numbers.first->back() == 100, "numbers");
    const string_vector& words = *file.find<string_vector>("words").first;
    require(words.size() == 2 && words[0] == "persistent" && words[1] == "memory", "words");
    const int_map& squares = *file.find<int_map>("squares").first;
    require(squares.size() == 99 && squares.find(50) == squares.end() && squares.at(9) == 81.0F, "squares");
    int expected = 9;
    for (const list_node* node = file.find<bip::offset_ptr<list_node>>("list").first->get(); node != nullptr;
         node = node->next.get()) {
        require(node->value == expected--, "list");
    }
    require(expected == -1, "length of the list");
    require(*file.find<int>(bip::unique_instance).first == 1, "unique instance");
    require(*file.find<int>("counter").first == 1, "counter");
    require(file.find<std::pair<double, int>>("pairs").first == nullptr, "pairs are gone");
    for (auto it = file.named_begin(); it != file.named_end(); ++it) {
        require(!it->name().empty() && it->value() != nullptr, "iteration");
    }
}

}  // namespace

int main(int count, char** arguments) {
    const std::string path = count > 1 ? arguments[1] : "interprocess_port.data";
    bip::file_mapping::remove(path.c_str());
    write_everything(path.c_str());
    change_something(path.c_str());
    read_everything(path.c_str());
    bip::file_mapping::remove(path.c_str());
    std::puts("interprocess_port: everything was found again");
    return 0;
}
