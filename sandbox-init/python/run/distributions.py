"""Import names whose distribution is known. A name that is not here has no hint: a stranger could register a
package of the name that code imports, and the agent would install it. Source: the projects' pages on PyPI."""

# Distributions whose name differs from their modules'.
OTHER = dict(
    pair.split("=")
    for pair in """
    IPython=ipython MySQLdb=mysqlclient OpenSSL=pyOpenSSL PIL=Pillow absl=absl-py attr=attrs bs4=beautifulsoup4
    bson=pymongo camelot=camelot-py cassandra=cassandra-driver Crypto=pycryptodome cv2=opencv-python-headless
    dateutil=python-dateutil dns=dnspython docx=python-docx dotenv=python-dotenv faiss=faiss-cpu fitz=PyMuPDF
    git=GitPython gtts=gTTS ibis=ibis-framework imblearn=imbalanced-learn jose=python-jose jwt=PyJWT kafka=kafka-python
    ldap=python-ldap magic=python-magic markdown_it=markdown-it-py mpl_toolkits=matplotlib nacl=PyNaCl
    newspaper=newspaper3k nmap=python-nmap odf=odfpy opensearchpy=opensearch-py paho=paho-mqtt pdfminer=pdfminer.six
    pil=Pillow pkg_resources=setuptools pptx=python-pptx psycopg2=psycopg2-binary pylab=matplotlib pymupdf=PyMuPDF
    readability=readability-lxml ruamel=ruamel.yaml serial=pyserial skimage=scikit-image sklearn=scikit-learn
    slugify=python-slugify speech_recognition=SpeechRecognition tabula=tabula-py umap=umap-learn usb=pyusb
    websocket=websocket-client wx=wxPython yaml=PyYAML zmq=pyzmq
    """.split()
)

# Those that are called as their module, with - for _.
SAME = frozenset(
    """
    aiofiles aiohttp aiosqlite alembic altair anthropic anyio arrow asgiref astropy asyncpg attrs babel bcrypt black
    bleach blinker bokeh boto3 botocore bottle cachetools catboost celery certifi cffi chardet charset_normalizer click
    cloudpickle cloudscraper colorama coloredlogs confluent_kafka coverage cryptography cssselect cvxpy cycler cython
    dask datasets datashader dateparser deepdiff defusedxml deltalake dill distributed distro docker docutils duckdb
    easyocr einops elasticsearch email_validator emoji ephem et_xmlfile executing faker fastapi fastavro fastparquet
    feedparser filelock fiona flask folium fonttools frozenlist fsspec ftfy gensim geoip2 geopandas geopy gevent gradio
    graphviz greenlet gunicorn h11 h2 h5py holidays holoviews html2text html5lib httpcore httptools httpx
    huggingface_hub humanize hvplot hypothesis icalendar ics idna igraph ijson imageio inflect inflection
    influxdb_client invoke ipykernel ipywidgets isodate isort itsdangerous jax jaxlib jedi jieba jinja2 jmespath joblib
    jsonlines jsonpatch jsonpath_ng jsonschema kaleido keras keyring kiwisolver langchain langchain_core ldap3 lightgbm
    llama_index llvmlite loguru lxml mako markdown markdownify markupsafe marshmallow matplotlib mechanize missingno
    mistune mlflow mock more_itertools moto mplfinance mpmath msgpack multidict mwparserfromhell mypy nbconvert nbformat
    neo4j netaddr networkx nltk notebook numba numexpr numpy oauthlib onnx onnxruntime openai openpyxl optuna orjson
    ortools packaging pandas pandas_datareader panel paramiko parsel parso passlib pathspec patsy pdfplumber peewee
    pendulum pexpect pika pikepdf pint platformdirs playwright plotly pluggy pmdarima polars portalocker praw
    prettytable prompt_toolkit prophet psutil psycopg pulp pyarrow pyasn1 pybind11 pycountry pycparser pydantic
    pydantic_core pydantic_settings pydot pydub pyecharts pyflakes pygal pygments pymongo pymysql pyodbc pyparsing pypdf
    pyproj pyspark pytesseract pytest pytz pyttsx3 pyvis qrcode rapidfuzz rasterio redis regex reportlab requests
    requests_html requests_oauthlib responses rich rpy2 rsa ruff s3fs sacrebleu safetensors scapy scipy scrapy seaborn
    selenium sentence_transformers sentencepiece sentry_sdk setuptools shap shapely simplejson six sniffio
    snowballstemmer sortedcontainers soupsieve spacy sphinx sqlalchemy sqlglot sqlite_utils sqlmodel sqlparse squarify
    starlette statsmodels streamlit structlog sympy tabulate tenacity tensorboard tensorflow termcolor textblob
    textdistance thefuzz tiktoken tinycss2 tokenizers toml tomli tomlkit toolz torch torchaudio torchvision tornado tqdm
    trafilatura traitlets transformers trio twine typer typing_extensions tzdata tzlocal ujson unidecode uritemplate
    urllib3 uvicorn uvloop validators virtualenv watchdog watchfiles wcwidth webencodings websockets werkzeug wheel
    wordcloud wrapt xarray xgboost xlrd xlsxwriter xlwt xmltodict xxhash yarl ydata_profiling yfinance zeep zipp
    zstandard
    """.split()
)


def distribution_of(module):
    """The distribution that has a module, or None if that is not known."""
    if module in OTHER:
        return OTHER[module]
    return module.replace("_", "-") if module in SAME else None
