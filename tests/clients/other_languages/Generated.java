package javax.annotation;

/** Stands for the annotation that marks generated classes; the JDK has none since Java 11. */
public @interface Generated {
    String[] value();

    String date() default "";

    String comments() default "";
}
