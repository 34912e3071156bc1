"""networkx: shortest paths, components, a spanning tree, communities.  graphs.py NODES"""
import sys

import networkx as nx


def main(nodes):
    graph = nx.barabasi_albert_graph(nodes, 4, seed=1)
    for a, b in graph.edges:
        graph[a][b]["weight"] = (a * 31 + b * 17) % 97 + 1
    print(sum(nx.single_source_dijkstra_path_length(graph, 0).values()))
    print(nx.minimum_spanning_tree(graph).size(weight="weight"))
    print(sorted(nx.core_number(graph).values())[-1], nx.number_connected_components(graph))
    print(sum(len(path) for path in nx.single_source_shortest_path(graph, 1).values()))
    print("%.9f" % nx.transitivity(graph), len(list(nx.community.label_propagation_communities(graph))))


main(int(sys.argv[1]))
