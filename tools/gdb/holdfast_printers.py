"""Pretty printers of gdb for what lies in a heap: holdfast::ptr, the containers, values, and the heap itself.

gdb loads this file with libholdfast.so where it is installed under /usr; under another prefix, where ~/.gdbinit has
`add-auto-load-safe-path PREFIX/lib`. For programs that are linked with the static library, write there:
`source PREFIX/share/holdfast/holdfast_printers.py`.

`print *p`, `print p->member`, `print p[1]` and `print p.get()` follow a holdfast::ptr, also in a core file, and so does
`print *$target(p)`.

The printers read memory alone; they call nothing in the program. A container that was damaged ends its list early.
"""

import re

import gdb
import gdb.printing
import gdb.xmethod

_BIAS = 1 << 47
_MASK = (1 << 48) - 1
_NOT_A_WORD = (1 << 64) - 1
_LOW_BITS = 7


def plain(type_):
    """The type without references, qualifiers and other names."""
    type_ = type_.strip_typedefs()
    if type_.code in (gdb.TYPE_CODE_REF, gdb.TYPE_CODE_RVALUE_REF):
        type_ = type_.target()
    return type_.unqualified().strip_typedefs()


def bases_of(type_):
    """A type, and all that it derives from."""
    type_ = plain(type_)
    yield type_
    if type_.code == gdb.TYPE_CODE_STRUCT:
        for field in type_.fields():
            if field.is_base_class:
                yield from bases_of(field.type)


def word_at(address):
    """The eight bytes there, as a number."""
    number = gdb.lookup_type("unsigned long")
    return int(gdb.Value(address).cast(number.pointer()).dereference())


def target_of(pointer):
    """Where a holdfast::ptr leads to; 0 for null. Bits 0 to 47 are the distance from the word itself, plus 2^47."""
    place = int(pointer.address)
    distance = word_at(place) & _MASK
    return 0 if distance <= _LOW_BITS else (place + distance - _BIAS) & _NOT_A_WORD


def node_at(pointer):
    """As target_of(), of a pointer in a node of a tree: it may also hold bits that Boost keeps there, as a color."""
    return target_of(pointer) & ~_LOW_BITS


def at(address, type_):
    """The object of that type there."""
    return gdb.Value(address).cast(type_.pointer()).dereference()


def element_type(value):
    """The first argument of the template that a container is."""
    return plain(value.type).template_argument(0)


class PtrPrinter:
    """ptr<T>: its target."""

    def __init__(self, value):
        self.value = value

    def to_string(self):
        """The target's address, with its type."""
        target = target_of(self.value)
        return f"(ptr<{element_type(self.value)}>) " + (hex(target) if target else "null")

    def children(self):
        """The target itself, where it has a type."""
        target, type_ = target_of(self.value), element_type(self.value)
        if target and type_.strip_typedefs().code != gdb.TYPE_CODE_VOID and type_.sizeof > 0:
            yield "*", at(target, type_)


class SequencePrinter:
    """What vector, list and set have in common: a length, and elements."""

    kind = "sequence"

    def __init__(self, value):
        self.value = value

    def elements(self):
        """The elements, in order."""
        raise NotImplementedError

    def length(self):
        """How many there are."""
        raise NotImplementedError

    def to_string(self):
        """The kind, and the length."""
        return f"holdfast::{self.kind} of length {self.length()}"

    def children(self):
        """The elements, with their indexes."""
        for index, element in enumerate(self.elements()):
            yield f"[{index}]", element

    def display_hint(self):
        """As of an array."""
        return "array"


class VectorPrinter(SequencePrinter):
    """vector and small_vector."""

    kind = "vector"

    def length(self):
        return int(self.value["m_holder"]["m_size"])

    def elements(self):
        begin, type_ = target_of(self.value["m_holder"]["m_start"]), element_type(self.value)
        for index in range(self.length() if begin else 0):
            yield at(begin + index * type_.sizeof, type_)


class StringPrinter:
    """basic_string: bit 0 of the first byte says that the characters lie in the string itself."""

    def __init__(self, value):
        self.value = value

    def to_string(self):
        """The characters."""
        representation = self.value["members_"]["m_repr"].address
        place, type_ = int(representation), element_type(self.value)
        first = word_at(place)
        if first & 1:
            length, begin = (first & 0xFF) >> 1, place + max(1, type_.sizeof)
        else:
            length, begin = first >> 1, target_of(gdb.Value(place + 16).cast(_pointer_type()).dereference())
        characters = gdb.Value(begin).cast(type_.unqualified().pointer())
        return characters.lazy_string(length=length) if length else ""

    def display_hint(self):
        """In quotes."""
        return "string"


def _pointer_type():
    return gdb.lookup_type("holdfast::detail::ptr_word").pointer()


def node_type_of(value):
    """The type of the nodes of a list or a tree of Boost.Container."""
    for type_ in bases_of(value.type):
        if type_.name and type_.name.startswith("boost::container::dtl::node_alloc_holder<"):
            return type_.template_argument(1).template_argument(0).template_argument(0).strip_typedefs()
    raise gdb.GdbError("no list and no tree")


def value_of_node(node, type_):
    """The element in a node, whose storage is bytes."""
    return at(int(node["m_storage"].address), type_)


class ListPrinter(SequencePrinter):
    """list and forward_list."""

    kind = "list"

    def _root(self):
        return self.value["m_icont"]["data_"]["root_plus_size_"]

    def _header(self):
        root = self._root()
        try:
            return root["m_header"]
        except gdb.error:
            return root["header_holder_"]

    def length(self):
        return int(self._root()["size_"])

    def elements(self):
        type_, node_type = element_type(self.value), node_type_of(self.value)
        header = self._header()
        end, next_ = int(header.address), target_of(header["next_"])
        for _ in range(self.length()):
            if next_ in (0, end):
                return
            node = at(next_, node_type)
            yield value_of_node(node, type_)
            next_ = target_of(node["next_"])


class DequePrinter(SequencePrinter):
    """deque: blocks of elements, and an array of pointers to them."""

    kind = "deque"

    def _places(self):
        members = self.value["members_"]
        start, finish = members["m_start"], members["m_finish"]
        size = element_type(self.value).sizeof
        first, last = target_of(start["m_first"]), target_of(start["m_last"])
        at_, end = target_of(start["m_cur"]), target_of(finish["m_cur"])
        block = target_of(start["m_node"])
        while at_ and at_ != end:
            yield at_
            at_ += size
            if at_ == last:
                length = last - first
                block += 8
                first = target_of(gdb.Value(block).cast(_pointer_type()).dereference())
                at_, last = first, first + length

    def length(self):
        return sum(1 for _ in self._places())

    def elements(self):
        type_ = element_type(self.value)
        for place in self._places():
            yield at(place, type_)


class TreePrinter(SequencePrinter):
    """set and multiset: the nodes of a red-black tree, in order."""

    kind = "set"

    def length(self):
        return int(self.value["m_icont"]["size_"])

    def elements(self):
        node_type, header = node_type_of(self.value), self.value["m_icont"]["holder"]["root"]
        type_ = self._stored_type()
        end, place = int(header.address), node_at(header["left_"])
        for _ in range(self.length()):
            if place in (0, end):
                return
            yield value_of_node(at(place, node_type), type_)
            place = self._next(place, node_type)

    def _stored_type(self):
        return element_type(self.value)

    @staticmethod
    def _next(place, node_type):
        """The node that follows in order: the leftmost one to the right, or the first parent from the left."""
        right = node_at(at(place, node_type)["right_"])
        if right:
            while left := node_at(at(right, node_type)["left_"]):
                right = left
            return right
        parent = node_at(at(place, node_type)["parent_"])
        while place == node_at(at(parent, node_type)["right_"]):
            place, parent = parent, node_at(at(parent, node_type)["parent_"])
        return parent if node_at(at(place, node_type)["right_"]) != parent else place


class MapPrinter(TreePrinter):
    """map and multimap."""

    kind = "map"

    def _stored_type(self):
        for type_ in bases_of(self.value.type):
            if type_.name and type_.name.startswith("boost::container::dtl::tree<"):
                return type_.template_argument(0)
        raise gdb.GdbError("no tree")

    def children(self):
        for index, element in enumerate(self.elements()):
            yield f"[{2 * index}]", element["first"]
            yield f"[{2 * index + 1}]", element["second"]

    def display_hint(self):
        return "map"


class FlatPrinter(SequencePrinter):
    """flat_set and flat_map: a sorted vector."""

    kind = "flat_set"

    def _vector(self):
        tree = self.value
        try:
            tree = self.value["m_flat_tree"]
        except gdb.error:
            pass
        return VectorPrinter(tree["m_data"]["m_seq"])

    def length(self):
        return self._vector().length()

    def elements(self):
        return self._vector().elements()


class FlatMapPrinter(FlatPrinter):
    """flat_map: a sorted vector of pairs."""

    kind = "flat_map"
    children = MapPrinter.children
    display_hint = MapPrinter.display_hint


class HashPrinter(SequencePrinter):
    """unordered_set: buckets of chains. The end of a chain is the address of its bucket, made odd."""

    kind = "unordered_set"

    def length(self):
        return int(self.value["occupancy_"]["size_"])

    def elements(self):
        chains = self.value["chains_"]
        node_type = chains.type.template_argument(0)
        bucket, last = target_of(chains["buckets_"]), int(chains["count_"])
        left = self.length()
        for index in range(last):
            place = target_of(gdb.Value(bucket + 8 * index).cast(_pointer_type()).dereference())
            while place and not place & 1 and left:
                node = at(place, node_type)
                yield node["value"]
                left -= 1
                place = target_of(node["next"])


class HashMapPrinter(HashPrinter):
    """unordered_map."""

    kind = "unordered_map"
    children = MapPrinter.children
    display_hint = MapPrinter.display_hint


class ManagerPrinter:
    """manager: whether it has a heap. The path is read where the library has debug information."""

    def __init__(self, value):
        self.value = value

    def to_string(self):
        """One line."""
        core = word_at(int(self.value["handle_"]["core_"].address))
        if core == 0:
            return "holdfast::manager without a heap"
        try:
            path = at(core, gdb.lookup_type("holdfast::detail::manager_core"))["path_"]
            return f"holdfast::manager of {path.format_string()}"
        except (gdb.error, RuntimeError):
            return f"holdfast::manager of a heap (core at {hex(core)})"


class ValuePrinter:
    """values::value: what a Python program has stored."""

    def __init__(self, value):
        self.value = value

    def to_string(self):
        """The kind, and a number or the place of the object."""
        what = str(self.value["what"]).rsplit("::", 1)[-1]
        number = int(self.value["number"])
        if what == "integer":
            return str(number - (1 << 64) if number >> 63 else number)
        if what == "real":
            return str(at(int(self.value["number"].address), gdb.lookup_type("double")))
        if what == "boolean":
            return "true" if number else "false"
        target = target_of(self.value["object"])
        if what in ("text", "bytes") and target:
            length = word_at(target + 8)
            text = gdb.Value(target + 16).cast(gdb.lookup_type("char").pointer())
            return f"{what} " + text.dereference().address.format_string(format="s") if length > 200 else (
                f'{what} "{text.string(length=length, errors="replace")}"'
            )
        return f"{what} at {hex(target)}" if target else what


class StableVectorPrinter(SequencePrinter):
    """stable_vector: an array of pointers to nodes."""

    kind = "stable_vector"

    def length(self):
        """The last pointers are those to the end, and to nodes that wait for elements."""
        return max(0, int(self.value["index"]["m_holder"]["m_size"]) - 3)

    def elements(self):
        index, type_ = self.value["index"]["m_holder"]["m_start"], element_type(self.value)
        begin = target_of(index)
        for number in range(self.length() if begin else 0):
            node = target_of(at(begin + 8 * number, gdb.lookup_type("holdfast::detail::ptr_word")))
            if not node:
                return
            yield at(node + max(8, type_.alignof), type_)


class HeapPrinters(gdb.printing.RegexpCollectionPrettyPrinter):
    """Printers by the names of types. A class that binds a container to its heap is printed as the container."""

    _BOUND = re.compile(r"^holdfast::detail::heap_bound(_tree)?<.*>$")

    def __call__(self, value):
        type_ = plain(value.type)
        bound = type_
        while bound.name and self._BOUND.match(bound.name):
            bound = plain(next(field.type for field in bound.fields() if field.is_base_class))
        if bound is not type_:
            value = value.referenced_value() if value.type.code == gdb.TYPE_CODE_REF else value
            value = value.cast(bound)
        return super().__call__(value)


def build():
    """All printers, by the names of their types. Containers of Boost are ours where their allocator is."""
    ours = HeapPrinters("holdfast")
    boost = r"^boost::container::"
    of_heap = r"<.*holdfast::(typed_|fallback_)?allocator<.*>$"
    for name, pattern, printer in (
        ("ptr", r"^holdfast::ptr<.*>$", PtrPrinter),
        ("manager", r"^holdfast::manager$", ManagerPrinter),
        ("value", r"^holdfast::values::(layout_\d+::)?value$", ValuePrinter),
        ("vector", r"^holdfast::(small_)?vector<.*>$", VectorPrinter),
        ("growing", r"^holdfast::detail::growing<.*>$", VectorPrinter),
        ("unordered_map", r"^holdfast::(layout_\d+::)?unordered_(multi)?map<.*>$", HashMapPrinter),
        ("unordered_set", r"^holdfast::(layout_\d+::)?unordered_(multi)?set<.*>$", HashPrinter),
        ("string", boost + "basic_string" + of_heap, StringPrinter),
        ("list", boost + "s?list" + of_heap, ListPrinter),
        ("stable_vector", boost + "stable_vector" + of_heap, StableVectorPrinter),
        ("deque", boost + "deque" + of_heap, DequePrinter),
        ("map", boost + "(multi)?map" + of_heap, MapPrinter),
        ("set", boost + "(multi)?set" + of_heap, TreePrinter),
        ("flat_map", boost + "flat_(multi)?map" + of_heap, FlatMapPrinter),
        ("flat_set", boost + "flat_(multi)?set" + of_heap, FlatPrinter),
    ):
        ours.add_printer(name, pattern, printer)
    return ours


class Target(gdb.Function):
    """$target(POINTER): where a holdfast::ptr leads to, as a pointer of C++: `print *$target(list.head)`."""

    def __init__(self):
        super().__init__("target")

    def invoke(self, pointer):
        """A T*."""
        if not re.match(r"^holdfast::ptr<.*>$", plain(pointer.type).name or "") or pointer.address is None:
            raise gdb.GdbError("$target() needs a holdfast::ptr that lies in memory")
        return gdb.Value(target_of(pointer)).cast(element_type(pointer).pointer())


class Follow(gdb.xmethod.XMethodWorker):
    """What a holdfast::ptr does in C++, without a call of the program's code."""

    def __init__(self, type_, operator):
        self.type, self.operator = type_, operator

    def get_arg_types(self):
        """The index of operator[]."""
        return gdb.lookup_type("long") if self.operator == "operator[]" else None

    def get_result_type(self, _pointer, *_index):
        """T& or T*."""
        return self.type.reference() if self.operator in ("operator*", "operator[]") else self.type.pointer()

    def __call__(self, pointer, index=0):
        pointer = pointer.dereference() if pointer.type.code == gdb.TYPE_CODE_PTR else pointer  # its `this`
        target = gdb.Value(target_of(pointer)).cast(self.type.pointer()) + int(index)
        return target.dereference() if self.operator in ("operator*", "operator[]") else target


class FollowMatcher(gdb.xmethod.XMethodMatcher):
    """Offers Follow to gdb."""

    def __init__(self):
        super().__init__("holdfast")
        self.methods = [gdb.xmethod.XMethod(name) for name in ("operator*", "operator->", "operator[]", "get")]

    def match(self, class_type, method_name):
        """For the methods of a ptr."""
        if not re.match(r"^holdfast::ptr<.*>$", class_type.strip_typedefs().unqualified().tag or ""):
            return None
        if not any(each.name == method_name and each.enabled for each in self.methods):
            return None
        return Follow(class_type.strip_typedefs().template_argument(0), method_name)


Target()
gdb.xmethod.register_xmethod_matcher(gdb.current_objfile(), FollowMatcher(), replace=True)
gdb.printing.register_pretty_printer(gdb.current_objfile(), build(), replace=True)
