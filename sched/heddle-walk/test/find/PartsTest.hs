-- |
-- Module      : PartsTest
-- Description : Modes, numbers, patterns, formats, trees
module PartsTest
  ( partsTests,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as Bytes
import Data.ByteString.Char8 qualified as Char8
import Data.ByteString.Unsafe qualified as Bytes
import Data.Either (isLeft)
import Data.Maybe (isNothing)
import Foreign.Ptr (castPtr)
import Heddle.Walk.Find.Internal.Compile (optimise)
import Heddle.Walk.Find.Internal.Format
import Heddle.Walk.Find.Internal.Mode
import Heddle.Walk.Find.Internal.Number
import Heddle.Walk.Find.Internal.Pattern
import Heddle.Walk.Find.Internal.Programs (splitPath)
import Heddle.Walk.Find.Internal.Syntax
import Heddle.Walk.Find.Internal.System
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, testCase, (@?=))
import Test.Tasty.QuickCheck

-- | Each part by itself.
partsTests :: TestTree
partsTests =
  testGroup
    "parts"
    [ modes,
      numbers,
      patterns,
      formats,
      trees,
      testCase "the directory and the name of an entry" $ do
        splitPath 2 (Char8.pack "./d/b") @?= (Char8.pack "./d/", Char8.pack "./b")
        splitPath 0 (Char8.pack ".") @?= (Char8.pack ".", Char8.pack "./.")
        splitPath 0 (Char8.pack "/") @?= (Char8.pack "/", Char8.pack "/")
        splitPath 0 (Char8.pack "d//") @?= (Char8.pack ".", Char8.pack "./d/")
    ]

modes :: TestTree
modes =
  testGroup
    "modes"
    [ testCase "octal and symbolic" $ do
        parse "644" @?= Just (0o644, 0o644)
        parse "u=rw,go=r" @?= Just (0o644, 0o644)
        parse "a=rX" @?= Just (0o444, 0o555)
        parse "g+s" @?= Just (0o2000, 0o2000)
        parse "+t" @?= Just (0o1000, 0o1000)
        parse "u=rwx,g=u-w,o=" @?= Just (0o750, 0o750)
        parse "=755" @?= Just (0o755, 0o755),
      testProperty "every octal mode" $ \(NonNegative n) ->
        let mode = n `mod` 0o10000 in parse (octal mode) === Just (fromIntegral mode, fromIntegral mode),
      testProperty "only invalid" . forAll invalidMode $ \text -> isNothing (parse text),
      testCase "letters" $ do
        renderMode 0o100644 @?= Char8.pack "-rw-r--r--"
        renderMode 0o041777 @?= Char8.pack "drwxrwxrwt"
        renderMode 0o107000 @?= Char8.pack "---S--S--T"
        renderMode 0o120777 @?= Char8.pack "lrwxrwxrwx"
    ]
  where
    parse = parseMode . Char8.pack
    octal :: Int -> String
    octal 0 = "0"
    octal n = go n ""
      where
        go 0 s = s
        go k s = go (k `div` 8) (toEnum (fromEnum '0' + k `mod` 8) : s)
    invalidMode =
      elements ["", "8", "10000", "77777", "x", "u", "u=q", "u+7", "u+r,", ",u+r", "u+r,,g+r", "u+rg", "0x7", "rwx", "x-", "a", "u=r g=r", "07 "]

numbers :: TestTree
numbers =
  testGroup
    "numbers"
    [ testProperty "counts" $ \(NonNegative n) -> do
        let text = show (n :: Int)
        (parseCount (Char8.pack text), parseCount (Char8.pack ('+' : text)), parseCount (Char8.pack ('-' : text)))
          === (Just (Count Exactly (fromIntegral n)), Just (Count More (fromIntegral n)), Just (Count Less (fromIntegral n))),
      testProperty "only invalid" . forAll (elements ["", "+", "-", "x", "1x", "--1", "+-1", "1.5", "1 ", "99999999999999999999", "- 1x"]) $
        isNothing . parseCount . Char8.pack,
      testProperty "only invalid sizes" . forAll (elements ["", "k", "+k", "1kk", "1x", "x", "+", "-", "1.5k", "kk", "1K", "1m"]) $
        isLeft . parseSize . Char8.pack,
      testProperty "a window is of its width" $ \(NonNegative days) (Small back) -> do
        let origin = Timestamp 1700000000 0
            moment = Timestamp (1700000000 - fromIntegral (back :: Int) * 3600) 0
            inside text = fmap (`matchesWindow` moment) (windowBefore origin 86400 (Char8.pack text))
            n = days :: Int
            age = fromIntegral back / 24 :: Double
        -- The origin is a day before now: n days before it until n-1 days before it.
        (inside (show n), inside ('+' : show n), inside ('-' : show n))
          === (Just (age < fromIntegral n && age >= fromIntegral n - 1), Just (age > fromIntegral n), Just (age < fromIntegral n))
    ]

patterns :: TestTree
patterns =
  testGroup
    "patterns"
    [ testCase "shapes" $ do
        shape "*" >>= (@?= Everything)
        shape "abc" >>= (@?= Literal (Char8.pack "abc"))
        shape "abc*" >>= (@?= Prefix (Char8.pack "abc"))
        shape "*abc" >>= (@?= Suffix (Char8.pack "abc"))
        shape "*abc*" >>= (@?= Infix (Char8.pack "abc"))
        shape "a*c" >>= (@?= Both (Char8.pack "a") (Char8.pack "c"))
        mapM_ (\p -> shape p >>= (@?= General)) ["a?", "[a]", "\\*", "a*b*c"],
      testProperty "as a plain matcher" . forAll ((,) <$> glob <*> word) $ \(p, text) -> ioProperty $ do
        initialise
        pattern' <- newPattern CaseMatters (Char8.pack p)
        actual <- matches pattern' (Char8.pack text)
        pure (actual === plain p text)
    ]
  where
    shape p = initialise >> patternShape <$> newPattern CaseMatters (Char8.pack p)
    glob = choose (0, 5) >>= \n -> vectorOf n (elements "ab*?.")
    word = choose (0, 7) >>= \n -> vectorOf n (elements "ab.")
    plain :: String -> String -> Bool
    plain "" text = null text
    plain ('*' : p) text = plain p text || (not (null text) && plain ('*' : p) (tail text))
    plain ('?' : p) text = not (null text) && plain p (tail text)
    plain (c : p) text = take 1 text == [c] && plain p (tail text)

matches :: Pattern -> ByteString -> IO Bool
matches pattern' text = Bytes.unsafeUseAsCStringLen (Bytes.snoc text 0) $ \(p, n) -> matchPattern pattern' (castPtr p) (n - 1)

formats :: TestTree
formats =
  testGroup
    "formats"
    [ testCase "pieces" $ do
        parse "a%pb\\n" @?= Right [Verbatim (Char8.pack "a"), Directive noPadding (Letter 'p'), Verbatim (Char8.pack "b\n")]
        parse "%T@%%\\101\\08" @?= Right [Directive noPadding (TimeOf ModifyTime '@'), Verbatim (Char8.pack "%A\NUL8")]
        parse "%-5.3d" @?= Right [Directive (Padding (Char8.pack "-") (Just 5) (Just 3)) (Letter 'd')]
        parse "x\\cy" @?= Right [Verbatim (Char8.pack "x")],
      testProperty "only invalid" . forAll ((++) <$> elements ["", "%p", "a\\n", "%5d"] <*> elements ["%", "%5", "%-.", "%{", "%[", "%(", "%.99999999999d"]) $
        isLeft . parse,
      testProperty "nothing is lost" $ \(ASCIIString text) ->
        all (`notElem` "%\\\NUL") text ==> parse text === Right [Verbatim (Char8.pack text) | not (null text)]
    ]
  where
    parse text = formatPieces <$> snd (parseFormat (Char8.pack text))

trees :: TestTree
trees =
  testGroup
    "trees"
    [ testProperty "optimising keeps the truth and the effects" . forAllBlind (expr (4 :: Int)) $ \e ->
        conjoin [evaluate world e === evaluate world (optimise e) | world <- [0 .. 7]],
      testCase "names are asked before the status" $
        case optimise (And (Test (Links (Count Exactly 1))) (Test (Inode (Count Exactly 2)))) of
          And (Test (Inode _)) (Test (Links _)) -> pure ()
          _ -> assertBool "not moved" False
    ]
  where
    expr n
      | n <= 0 = leaf
      | otherwise =
        oneof
          [ leaf,
            And <$> expr (n - 1) <*> expr (n - 1),
            Or <$> expr (n - 1) <*> expr (n - 1),
            List <$> expr (n - 1) <*> expr (n - 1),
            Not <$> expr (n - 1)
          ]
    -- Three tests that a world decides, and actions told apart by their sink.
    leaf =
      oneof
        [ Constant <$> arbitrary,
          elements [Test (Links (Count Exactly 0)), Test (Inode (Count Exactly 1)), Test (UserNumber (Count Exactly 2))],
          Action . Print . ToFile <$> choose (0, 5)
        ]
    evaluate :: Int -> Expr -> (Bool, [Int])
    evaluate world = go
      where
        go = \case
          Constant b -> (b, [])
          Test (Links _) -> (odd world, [])
          Test (Inode _) -> (odd (world `div` 2), [])
          Test _ -> (odd (world `div` 4), [])
          Action (Print (ToFile i)) -> (True, [i])
          Action _ -> (True, [])
          Not e -> let (b, out) = go e in (not b, out)
          And a b -> let (x, out) = go a; (y, more) = go b in if x then (y, out ++ more) else (False, out)
          Or a b -> let (x, out) = go a; (y, more) = go b in if x then (True, out) else (y, out ++ more)
          List a b -> let (_, out) = go a; (y, more) = go b in (y, out ++ more)
