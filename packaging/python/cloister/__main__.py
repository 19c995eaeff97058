"""python -m cloister"""

from cloister import main

main()
