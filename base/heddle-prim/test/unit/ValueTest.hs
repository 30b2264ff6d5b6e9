-- | Time and error numbers: values.
module ValueTest (tests) where

import Control.Exception
import Data.List (isInfixOf)
import Foreign.C.Error qualified as C
import Heddle.Prim.Clock
import Heddle.Prim.Errno
import Heddle.Prim.Exception (HeddleBug, bug, catchSync, isAsynchronous, trySync)
import Test.QuickCheck
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit
import Test.Tasty.QuickCheck (testProperty)

tests :: TestTree
tests =
  testGroup
    "values"
    [ testGroup
        "time"
        [ testCase "units" $ [nanos 1000, microseconds 1000, milliseconds 1000, seconds 1] @?= map Nanos [1000, 1000000, 1000000000, 1000000000],
          testProperty "a deadline later, and the time to it" $ \(NonNegative a) b ->
            elapsed (Deadline a) (after (nanos b) (Deadline a)) === nanos b,
          testProperty "a deadline saturates instead of wrapping" $ \(NonNegative a) (NonNegative n) ->
            let d = Deadline (maxBound - a) in after (nanos n) d >= d .&&. after (nanos n) never === never,
          testProperty "durationsSaturateInsteadOfWrapping" $ \(Large a) (Large b) ->
            let exact = max (toInteger (minBound :: Int)) . min (toInteger (maxBound :: Int))
                agrees op onInteger = toInteger (nanosCount (op (nanos a) (nanos b))) === exact (onInteger (toInteger a) (toInteger b))
             in conjoin
                  [ agrees (<>) (+),
                    agrees minusNanos (-),
                    agrees (timesNanos . nanosCount) (*),
                    toInteger (nanosCount (seconds a)) === exact (toInteger a * 1000000000),
                    toInteger (nanosCount (elapsed (Deadline a) (Deadline b))) === exact (toInteger b - toInteger a),
                    nanosCount (mempty `minusNanos` nanos minBound) === maxBound,
                    after (nanos b) never === never
                  ],
          testCase "the clock does not go back" $ do
            ticks <- mapM (const monotonicNow) [1 .. 1000 :: Int]
            assertBool "back" (and (zipWith (<=) ticks (tail ticks)))
            now <- monotonicNow
            later <- deadlineIn (seconds 5)
            assertBool "later" (elapsed now later >= seconds 5),
          testCase "the calendar" $ do
            EpochSeconds s <- epochNow
            (EpochSeconds t, Nanos n) <- epochNowExactly
            assertBool "after 2020" (s > 1577836800 && t >= s && n >= 0 && n < 1000000000)
            minutes <- utcOffsetMinutes (EpochSeconds s)
            assertBool "a time zone" (abs minutes <= 26 * 60)
        ],
      testGroup
        "error numbers"
        [ testCase "symbols, sentences and the C library's numbers agree" $ do
            map errnoSymbol [EACCES, EADDRINUSE, ECONNREFUSED, Errno 99999] @?= ["EACCES", "EADDRINUSE", "ECONNREFUSED", "errno 99999"]
            describeErrno EACCES @?= "permission denied (EACCES)"
            show EINVAL @?= "EINVAL"
            errnoSentence EIO @?= "input/output error"
            let pairs =
                  [ (EPERM, C.ePERM),
                    (ENOENT, C.eNOENT),
                    (EINTR, C.eINTR),
                    (EBADF, C.eBADF),
                    (EAGAIN, C.eAGAIN),
                    (EACCES, C.eACCES),
                    (EEXIST, C.eEXIST),
                    (EMFILE, C.eMFILE),
                    (EPIPE, C.ePIPE),
                    (ELOOP, C.eLOOP),
                    (EOPNOTSUPP, C.eOPNOTSUPP),
                    (EADDRINUSE, C.eADDRINUSE),
                    (ECONNABORTED, C.eCONNABORTED),
                    (ECONNRESET, C.eCONNRESET),
                    (ENOBUFS, C.eNOBUFS),
                    (ENOTCONN, C.eNOTCONN),
                    (ETIMEDOUT, C.eTIMEDOUT),
                    (ECONNREFUSED, C.eCONNREFUSED),
                    (EINPROGRESS, C.eINPROGRESS)
                  ]
            sequence_ [errnoNumber e @?= fromIntegral n | (e, C.Errno n) <- pairs],
          testCase "an exception keeps the number and says what was tried" $ do
            r <- try (checked "open the door" (pure (negate (errnoNumber ENOENT))))
            case r of
              Left e -> do
                errnoOf e @?= Just ENOENT
                assertBool (show e) ("open the door" `isInfixOf` show e)
              Right n -> assertFailure (show n)
            checked "count" (pure 5) >>= (@?= 5)
            errnoOf (userError "none") @?= Nothing
        ],
      testGroup
        "exceptions"
        [ testCase "synchronous ones are caught, asynchronous ones pass" $ do
            r <- trySync (throwIO (userError "x") :: IO ())
            either (\e -> fromException e @?= Just (userError "x")) (const (assertFailure "returned")) r
            (throwIO (userError "y") `catchSync` \_ -> pure "caught") >>= (@?= "caught")
            p <- try (trySync (throwIO ThreadKilled :: IO ()))
            either (@?= ThreadKilled) (const (assertFailure "caught")) p
            isAsynchronous (toException UserInterrupt) @?= True
            isAsynchronous (toException (userError "z")) @?= False,
          testCase "a bug asks to be reported" $ do
            r <- try (bug "two and two") :: IO (Either HeddleBug ())
            either (\e -> assertBool (show e) ("please report: two and two" `isInfixOf` displayException e)) (const (assertFailure "returned")) r
        ]
    ]
