import time

time.sleep(600.0)
