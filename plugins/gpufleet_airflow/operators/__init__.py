"""What a DAG author imports: `from gpufleet_airflow.operators.gpu_job import GpuJobOperator`."""
