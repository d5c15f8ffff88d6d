//! The ClusterCatalog controller.
