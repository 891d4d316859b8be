"""The papers' results, in seconds: numbers from their texts and tables; none is read off a figure.

S3ORAM: Hoang, Ozkaptan, Yavuz, Guajardo, Nguyen, "S3ORAM: A Computation-Efficient and Constant
Client Bandwidth Blowup ORAM with Shamir Secret Sharing", CCS 2017, section 5.3 and table 1: a
laptop, 29 Mbit/s down, 5 up, 15 ms, a database of 40 GB on three servers of EC2.

MACAO: Hoang, Guajardo, Yavuz, "MACAO: A Maliciously-Secure and Client-Efficient Active ORAM
Framework", NDSS 2020: databases of 1 GB to 1 TB, home network; it ran S3ORAM too.
"""

KB = 1024

# (block bytes, seconds), database 40 GB.
S3ORAM = [(128 * KB, 2.4), (256 * KB, 4.5), (512 * KB, 7.3)]
# 256 KB: S3ORAM's 4.5 s times the factors that the text gives, 8.3 and 5.4. 128 KB: table 1.
PATH_ORAM = [(128 * KB, 20.3), (256 * KB, 4.5 * 8.3)]
RING_ORAM = [(128 * KB, 13.2), (256 * KB, 4.5 * 5.4)]
ONION_ORAM = [(128 * KB, 1e4)]
PAPER_SCHEMES = {
    "S3ORAM (its paper)": S3ORAM,
    "Ring-ORAM (S3ORAM's paper)": RING_ORAM,
    "Path-ORAM (S3ORAM's paper)": PATH_ORAM,
    "Onion-ORAM (S3ORAM's paper)": ONION_ORAM,
}

# (block bytes, seconds at 1 GB, seconds at 1 TB); for MACAO, the fastest and the slowest variant.
MACAO_PAPER = {
    "S3ORAM (MACAO's paper)": [(4 * KB, 0.312, 0.451), (256 * KB, 1.78, 3.11)],
    "MACAO": [(4 * KB, 0.198, 0.336), (256 * KB, 3.3, 5.5)],
}

# Shares of S3ORAM's delay. "The server computation only occupied a small amount (5-8%)", and
# "client-server communication and server disk I/O access contributed more than 90%", as one
# number; server-server and client are "minimal" and "negligible".
S3ORAM_SERVER_SHARE = 0.065
S3ORAM_NETWORK_AND_DISK_SHARE = 0.90
