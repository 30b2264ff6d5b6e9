{-# LANGUAGE PatternSynonyms #-}

-- |
-- Module      : Heddle.Prim.Errno
-- Description : Error numbers of system calls
-- Stability   : stable
--
-- System calls in Heddle return an 'Int': the result, or minus the error number. An 'Errno' is that
-- number. It has a symbol and a sentence, and can be thrown as an 'IOException' that keeps it.
--
-- Cost: O(1). Owner: values.
module Heddle.Prim.Errno
  ( -- * Error numbers
    Errno (..),
    errnoSymbol,
    errnoSentence,
    describeErrno,

    -- * As exceptions
    throwErrnoFor,
    errnoOf,
    checked,

    -- * Names
    pattern EPERM,
    pattern ENOENT,
    pattern E2BIG,
    pattern EINTR,
    pattern EIO,
    pattern ENXIO,
    pattern EBADF,
    pattern EAGAIN,
    pattern ENOMEM,
    pattern EACCES,
    pattern EEXIST,
    pattern EXDEV,
    pattern ENODEV,
    pattern ENOTDIR,
    pattern EISDIR,
    pattern EINVAL,
    pattern ENFILE,
    pattern EMFILE,
    pattern ENOSPC,
    pattern EPIPE,
    pattern ENAMETOOLONG,
    pattern ENOSYS,
    pattern ELOOP,
    pattern ENONET,
    pattern EPROTO,
    pattern ENOTSOCK,
    pattern ENOPROTOOPT,
    pattern EOPNOTSUPP,
    pattern EAFNOSUPPORT,
    pattern EADDRINUSE,
    pattern EADDRNOTAVAIL,
    pattern ENETDOWN,
    pattern ENETUNREACH,
    pattern ECONNABORTED,
    pattern ECONNRESET,
    pattern ENOBUFS,
    pattern ENOTCONN,
    pattern ETIMEDOUT,
    pattern ECONNREFUSED,
    pattern EHOSTDOWN,
    pattern EHOSTUNREACH,
    pattern EALREADY,
    pattern EINPROGRESS,
  )
where

import Data.Maybe (fromMaybe)
import Foreign.C.Error qualified as C
import Foreign.C.String (peekCString)
import Foreign.C.Types (CChar, CInt (..))
import Foreign.Ptr (Ptr)
import GHC.IO.Exception (IOException (..))
import System.IO.Unsafe (unsafePerformIO)

-- | An error number of this machine's kernel.
newtype Errno = Errno {errnoNumber :: Int}
  deriving stock (Eq, Ord)

instance Show Errno where
  show = errnoSymbol

-- | The symbol, such as @EACCES@.
errnoSymbol :: Errno -> String
errnoSymbol (Errno n) = fromMaybe ("errno " ++ show n) (lookup n symbols)

-- | The C library's sentence in lower case: @permission denied@.
errnoSentence :: Errno -> String
errnoSentence (Errno n) = case unsafePerformIO (c_strerror (fromIntegral n) >>= peekCString) of
  c : rest | c `elem` ['A' .. 'Z'], take 1 rest `notElem` map pure ['A' .. 'Z'] -> toEnum (fromEnum c + 32) : rest
  text -> text

-- | Sentence and symbol: @permission denied (EACCES)@.
describeErrno :: Errno -> String
describeErrno e = errnoSentence e ++ " (" ++ errnoSymbol e ++ ")"

-- | Throw an 'IOException' naming what was tried.
--
-- [Throws]: 'IOException' with the errno, always.
throwErrnoFor :: String -> Errno -> IO a
throwErrnoFor what (Errno n) = ioError (C.errnoToIOError what (C.Errno (fromIntegral n)) Nothing Nothing)

-- | The error number inside an 'IOException'.
errnoOf :: IOException -> Maybe Errno
errnoOf e = Errno . fromIntegral <$> ioe_errno e

-- | Pass a result on; throw when it is an error number.
--
-- [Throws]: 'IOException' with the errno.
checked :: String -> IO Int -> IO Int
checked what call = do
  r <- call
  if r < 0 then throwErrnoFor what (Errno (negate r)) else pure r
{-# INLINE checked #-}

-- Unsafe: looks a number up in a table of the C library.
foreign import ccall unsafe "strerror" c_strerror :: CInt -> IO (Ptr CChar)

-- Linux's numbers on x86-64 and Arm (asm-generic).

-- | Named as in errno(3); the symbol is the documentation.
pattern EPERM, ENOENT, EINTR, EIO, ENXIO, E2BIG, EBADF, EAGAIN, ENOMEM, EACCES, EEXIST, EXDEV, ENODEV, ENOTDIR, EISDIR, EINVAL, ENFILE, EMFILE, ENOSPC, EPIPE, ENAMETOOLONG, ENOSYS, ELOOP, ENONET, EPROTO, ENOTSOCK, ENOPROTOOPT, EOPNOTSUPP, EAFNOSUPPORT, EADDRINUSE, EADDRNOTAVAIL, ENETDOWN, ENETUNREACH, ECONNABORTED, ECONNRESET, ENOBUFS, ENOTCONN, ETIMEDOUT, ECONNREFUSED, EHOSTDOWN, EHOSTUNREACH, EALREADY, EINPROGRESS :: Errno
pattern EPERM = Errno 1
pattern ENOENT = Errno 2
pattern EINTR = Errno 4
pattern E2BIG = Errno 7
pattern EIO = Errno 5
pattern ENXIO = Errno 6
pattern EBADF = Errno 9
pattern EAGAIN = Errno 11
pattern ENOMEM = Errno 12
pattern EACCES = Errno 13
pattern EEXIST = Errno 17
pattern EXDEV = Errno 18
pattern ENODEV = Errno 19
pattern ENOTDIR = Errno 20
pattern EISDIR = Errno 21
pattern EINVAL = Errno 22
pattern ENFILE = Errno 23
pattern EMFILE = Errno 24
pattern ENOSPC = Errno 28
pattern EPIPE = Errno 32
pattern ENAMETOOLONG = Errno 36
pattern ENOSYS = Errno 38
pattern ELOOP = Errno 40
pattern ENONET = Errno 64
pattern EPROTO = Errno 71
pattern ENOTSOCK = Errno 88
pattern ENOPROTOOPT = Errno 92
pattern EOPNOTSUPP = Errno 95
pattern EAFNOSUPPORT = Errno 97
pattern EADDRINUSE = Errno 98
pattern EADDRNOTAVAIL = Errno 99
pattern ENETDOWN = Errno 100
pattern ENETUNREACH = Errno 101
pattern ECONNABORTED = Errno 103
pattern ECONNRESET = Errno 104
pattern ENOBUFS = Errno 105
pattern ENOTCONN = Errno 107
pattern ETIMEDOUT = Errno 110
pattern ECONNREFUSED = Errno 111
pattern EHOSTDOWN = Errno 112
pattern EHOSTUNREACH = Errno 113
pattern EALREADY = Errno 114
pattern EINPROGRESS = Errno 115

symbols :: [(Int, String)]
symbols =
  [ (1, "EPERM"),
    (2, "ENOENT"),
    (3, "ESRCH"),
    (4, "EINTR"),
    (5, "EIO"),
    (6, "ENXIO"),
    (7, "E2BIG"),
    (8, "ENOEXEC"),
    (9, "EBADF"),
    (10, "ECHILD"),
    (11, "EAGAIN"),
    (12, "ENOMEM"),
    (13, "EACCES"),
    (14, "EFAULT"),
    (15, "ENOTBLK"),
    (16, "EBUSY"),
    (17, "EEXIST"),
    (18, "EXDEV"),
    (19, "ENODEV"),
    (20, "ENOTDIR"),
    (21, "EISDIR"),
    (22, "EINVAL"),
    (23, "ENFILE"),
    (24, "EMFILE"),
    (25, "ENOTTY"),
    (26, "ETXTBSY"),
    (27, "EFBIG"),
    (28, "ENOSPC"),
    (29, "ESPIPE"),
    (30, "EROFS"),
    (31, "EMLINK"),
    (32, "EPIPE"),
    (33, "EDOM"),
    (34, "ERANGE"),
    (35, "EDEADLOCK"),
    (36, "ENAMETOOLONG"),
    (37, "ENOLCK"),
    (38, "ENOSYS"),
    (39, "ENOTEMPTY"),
    (40, "ELOOP"),
    (42, "ENOMSG"),
    (43, "EIDRM"),
    (44, "ECHRNG"),
    (45, "EL2NSYNC"),
    (46, "EL3HLT"),
    (47, "EL3RST"),
    (48, "ELNRNG"),
    (49, "EUNATCH"),
    (50, "ENOCSI"),
    (51, "EL2HLT"),
    (52, "EBADE"),
    (53, "EBADR"),
    (54, "EXFULL"),
    (55, "ENOANO"),
    (56, "EBADRQC"),
    (57, "EBADSLT"),
    (59, "EBFONT"),
    (60, "ENOSTR"),
    (61, "ENODATA"),
    (62, "ETIME"),
    (63, "ENOSR"),
    (64, "ENONET"),
    (65, "ENOPKG"),
    (66, "EREMOTE"),
    (67, "ENOLINK"),
    (68, "EADV"),
    (69, "ESRMNT"),
    (70, "ECOMM"),
    (71, "EPROTO"),
    (72, "EMULTIHOP"),
    (73, "EDOTDOT"),
    (74, "EBADMSG"),
    (75, "EOVERFLOW"),
    (76, "ENOTUNIQ"),
    (77, "EBADFD"),
    (78, "EREMCHG"),
    (79, "ELIBACC"),
    (80, "ELIBBAD"),
    (81, "ELIBSCN"),
    (82, "ELIBMAX"),
    (83, "ELIBEXEC"),
    (84, "EILSEQ"),
    (85, "ERESTART"),
    (86, "ESTRPIPE"),
    (87, "EUSERS"),
    (88, "ENOTSOCK"),
    (89, "EDESTADDRREQ"),
    (90, "EMSGSIZE"),
    (91, "EPROTOTYPE"),
    (92, "ENOPROTOOPT"),
    (93, "EPROTONOSUPPORT"),
    (94, "ESOCKTNOSUPPORT"),
    (95, "ENOTSUP"),
    (96, "EPFNOSUPPORT"),
    (97, "EAFNOSUPPORT"),
    (98, "EADDRINUSE"),
    (99, "EADDRNOTAVAIL"),
    (100, "ENETDOWN"),
    (101, "ENETUNREACH"),
    (102, "ENETRESET"),
    (103, "ECONNABORTED"),
    (104, "ECONNRESET"),
    (105, "ENOBUFS"),
    (106, "EISCONN"),
    (107, "ENOTCONN"),
    (108, "ESHUTDOWN"),
    (109, "ETOOMANYREFS"),
    (110, "ETIMEDOUT"),
    (111, "ECONNREFUSED"),
    (112, "EHOSTDOWN"),
    (113, "EHOSTUNREACH"),
    (114, "EALREADY"),
    (115, "EINPROGRESS"),
    (116, "ESTALE"),
    (117, "EUCLEAN"),
    (118, "ENOTNAM"),
    (119, "ENAVAIL"),
    (120, "EISNAM"),
    (121, "EREMOTEIO"),
    (122, "EDQUOT"),
    (123, "ENOMEDIUM"),
    (124, "EMEDIUMTYPE"),
    (125, "ECANCELED"),
    (126, "ENOKEY"),
    (127, "EKEYEXPIRED"),
    (128, "EKEYREVOKED"),
    (129, "EKEYREJECTED"),
    (130, "EOWNERDEAD"),
    (131, "ENOTRECOVERABLE"),
    (132, "ERFKILL")
  ]
